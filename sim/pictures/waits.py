"""Who waits for whom at the end of a run, as a picture."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from squall.model.events.graph import find_cycle
from squall.sim.pictures.flows import seconds
from squall.sim.pictures.labels import heading, hover, nothing, table
from squall.sim.pictures.palette import BLACK, BLUE, INK, LAYOUT, MUTED, ORANGE, PALE, VERMILION
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.wait_graph import until, wait_for

if TYPE_CHECKING:
    import networkx as nx

_Place = tuple[float, float]

#: characters beside what is drawn
_LINE = 28
_TITLE = "Who waits for whom at the end"
_COLORS = {"task": BLUE, "pass": ORANGE, "dead end": VERMILION, "on its way": PALE}
_SYMBOLS = {"task": "circle", "pass": "diamond", "dead end": "x", "on its way": "triangle-right"}


def waits(run: object, *, at: int | None = None) -> go.Figure:
    """The wait-for graph: an arrow from who waits to what it waits for, after the first ``at``
    events. By default at the end of the run, or before the first timeout
    (:func:`squall.sim.pictures.wait_graph.moment`)."""
    import networkx as nx

    whole = recording(run)
    run = until(whole, at)
    graph = wait_for(whole, at=at)
    if not graph:
        return nothing(_TITLE, "nobody waits when the run is over")
    title = _TITLE
    if len(run) < len(whole) and (at is not None or not whole.waits):
        timeout = at is None
        when = "before the first timeout" if timeout else f"after {len(run):,} events"
        title = f"Who waits for whom {when}, at t={run.ended_s:.6f} s"
    cycle = find_cycle(nx.DiGraph(graph))
    where = _layout(graph)
    arrows = [
        _arrow(where[first], where[second], first in cycle and second in cycle)
        for first, second in graph.edges()
    ]
    count = graph.number_of_edges()
    note = f"{count} wait{'' if count == 1 else 's'}"
    if cycle:
        names = " → ".join(graph.nodes[node]["label"] for node in [*cycle, cycle[0]])
        note += f" · a cycle: {names}"
    rows = [place[1] for place in where.values()]
    columns = [place[0] for place in where.values()]
    figure = go.Figure([*_reasons(run, graph, where), *_nodes(run, graph, where)])
    figure.update_layout(
        dict(LAYOUT),
        annotations=arrows,
        title=heading(f'<b>{title}</b><br><span style="color:{MUTED}">{note}</span>'),
        xaxis={"visible": False, "range": [min(columns) - 0.6, max(columns) + 0.6]},
        yaxis={"visible": False, "range": [max(rows) + 0.8, min(rows) - 0.8]},
        meta={"clock": "none", "title": title, "notes": [title, note]},
        showlegend=True,
    )
    return figure


def _lines(text: str) -> str:
    return "<br>".join(textwrap.wrap(text, _LINE))


def _arrow(first: _Place, second: _Place, red: bool) -> dict[str, Any]:
    """From who waits to what it waits for; red in a cycle."""
    return {
        "x": second[0],
        "y": second[1],
        "ax": first[0],
        "ay": first[1],
        "axref": "x",
        "ayref": "y",
        "showarrow": True,
        "arrowhead": 2,
        "arrowsize": 1.1,
        "arrowwidth": 2.4 if red else 1.3,
        "arrowcolor": VERMILION if red else MUTED,
        "standoff": 14,
        "startstandoff": 12,
        "text": "",
    }


def _reasons(
    run: Recording, graph: nx.MultiDiGraph, where: Mapping[Hashable, _Place]
) -> Iterator[go.Scatter]:
    """What is waited for, beside each arrow."""
    for first, second, data in graph.edges(data=True):
        yield go.Scatter(
            x=[(where[first][0] + where[second][0]) / 2],
            y=[(where[first][1] + where[second][1]) / 2],
            mode="text",
            text=[f"<i>{_lines(data['what'])}</i>"],
            textposition="top center",
            textfont={"size": 11, "color": MUTED},
            hovertext=f"since t={data['since']:.6f} s, for {seconds(run.ended_s - data['since'])}",
            hoverinfo="text",
            showlegend=False,
            meta={"labels": True},
        )


def _nodes(
    run: Recording, graph: nx.MultiDiGraph, where: Mapping[Hashable, _Place]
) -> Iterator[go.Scatter]:
    """Who waits, and what is waited for: a trace for each kind of them."""
    for kind, color in _COLORS.items():
        nodes = [node for node in graph if graph.nodes[node]["kind"] == kind]
        if not nodes:
            continue
        labels = [graph.nodes[node]["label"] for node in nodes]
        events = [graph.nodes[node]["event"] for node in nodes]
        yield go.Scatter(
            x=[where[node][0] for node in nodes],
            y=[where[node][1] for node in nodes],
            mode="markers+text",
            marker={
                "size": 18,
                "color": color,
                "symbol": _SYMBOLS[kind],
                "line": {"color": BLACK, "width": 1},
            },
            text=[_lines(label) for label in labels],
            textposition="bottom center",
            textfont={"size": 12, "color": INK},
            hovertext=[
                table([("began", hover(run, event))], head=label)
                for event, label in zip(events, labels, strict=True)
            ],
            hoverinfo="text",
            name=kind,
            customdata=events,
        )


def _layout(graph: nx.MultiDiGraph) -> dict[Hashable, _Place]:
    """Who waits stands to the left of what it waits for; those of a cycle stand in a ring."""
    import networkx as nx

    condensed = nx.condensation(nx.DiGraph(graph))
    begin: dict[int, float] = {}
    columns: dict[float, list[int]] = {}
    for group in nx.topological_sort(condensed):
        before = [
            begin[other] + 1 + _width(condensed.nodes[other]["members"])
            for other in condensed.pred[group]
        ]
        begin[group] = max(before, default=0.0)
        columns.setdefault(begin[group], []).append(group)
    # Where one waits for several, every second column is lower: no arrow runs through what lies between.
    lower = 0.4 if any(degree > 1 for _, degree in nx.DiGraph(graph).out_degree) else 0.0
    places: dict[Hashable, _Place] = {}
    for at, (column, groups) in enumerate(sorted(columns.items())):
        for row, group in enumerate(groups):
            members = condensed.nodes[group]["members"]
            middle = (column + _width(members) / 2, row - (len(groups) - 1) / 2 + lower * (at % 2))
            places |= _ring(_in_turn(graph, members), middle)
    return places


def _width(members: Collection[Hashable]) -> float:
    return 0.0 if len(members) == 1 else 1.0 + len(members) / 3


def _in_turn(graph: nx.MultiDiGraph, members: Collection[Hashable]) -> list[Hashable]:
    """Those of a cycle in its order, and others of them behind it."""
    import networkx as nx

    found = find_cycle(nx.DiGraph(graph.subgraph(members))) if len(members) > 1 else []
    order = [*graph]
    return [*found, *sorted(set(members) - set(found), key=order.index)]


def _ring(members: list[Hashable], middle: _Place) -> dict[Hashable, _Place]:
    if len(members) == 1:
        return {members[0]: middle}
    radius, places = _width(members) / 2, {}
    for number, node in enumerate(members):
        angle = math.pi + 2 * math.pi * number / len(members)
        places[node] = (middle[0] + radius * math.cos(angle), middle[1] + 0.8 * math.sin(angle))
    return places
