"""The joint autograd graph of one pass, and a slider through the pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from squall.sim.pictures.glossary import ROLES
from squall.sim.pictures.labels import heading, hover, nothing, table
from squall.sim.pictures.palette import BAND, DARK_TEXT, INK, LAYOUT, MUTED, ORANGE, PALE, VERMILION
from squall.sim.pictures.passes import Pass, Place, joint_graph, layout, nodes_of, passes, start
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.slider import (
    RAN,
    READY,
    WAITING,
    buttons,
    colors,
    counts,
    slider,
    stops,
)
from squall.sim.pictures.spans import short_name

if TYPE_CHECKING:
    import networkx as nx

#: nodes that are drawn at most, and that have their names beside them
NODES_MOST = 5_000
NAMED_MOST = 120

_SYMBOLS = {
    "root": "star",
    "send": "triangle-right",
    "recv": "triangle-left",
    "leaf": "square",
    "node": "circle",
}
_ROLES = {
    "root": "root",
    "send": "send function",
    "recv": "recv function",
    "leaf": "leaf",
    "node": "node",
}


def graph(run: object, *, number: int | None = None, context: int | None = None) -> go.Figure:
    """The joint autograd graph of one pass: a band per worker, gradients flow to the right.

    Each node shows the gradients it still waits for; the slider goes through the pass, counts
    them down and lights nodes up as they run. ``number`` picks the pass by its place in the run
    (see :func:`squall.sim.pictures.passes.passes`), ``context`` the first one of a context; by default
    it is the largest one. Raises ValueError if there is no such pass.
    """
    run = recording(run)
    found = passes(run)
    if number is not None:
        found = [one for one in found if one.number == number]
        if not found:
            raise ValueError(f"number: there is no backward pass {number} in this run")
    if context is not None:
        found = [one for one in found if one.context == context][:1]
        if not found:
            raise ValueError(f"context: no backward pass began in context {context}")
    if not found:
        return nothing("The joint autograd graph", "no backward pass found a graph in this run")
    one = max(found, key=nodes_of)
    return _draw(run, one)


def _draw(run: Recording, one: Pass) -> go.Figure:
    joint = joint_graph(one)
    notes = []
    if len(joint) > NODES_MOST:
        kept = sorted(joint.nodes, key=lambda p: (joint.nodes[p]["role"] == "node", p))
        notes.append(f"{NODES_MOST:,} of {len(joint):,} nodes are drawn, all ends of messages too")
        joint = joint.subgraph(kept[:NODES_MOST]).copy()
    places = list(joint.nodes)
    where = layout(joint)
    names = len(places) <= NAMED_MOST
    webgl = len(places) > 1500
    traces: list[Any] = []
    traces.append(_edges(joint, where, False, PALE, "within a worker", webgl))
    traces.append(_edges(joint, where, True, VERMILION, "message between workers", webgl))
    make = go.Scattergl if webgl else go.Scatter
    progress = start(joint)
    size = 24 if len(places) <= 150 else (15 if len(places) <= 600 else 8)
    traces.append(
        make(
            x=[where[place][0] for place in places],
            y=[where[place][1] for place in places],
            mode="markers+text" if size >= 15 and not webgl else "markers",
            marker={
                "size": size,
                "symbol": [_SYMBOLS[joint.nodes[place]["role"]] for place in places],
                "color": colors(joint, places, progress, -1),
                "line": {"color": INK, "width": 1.2},
            },
            text=counts(joint, places, progress),
            textposition="middle center",
            textfont={"size": 10.5 if size >= 20 else 8.5, "color": DARK_TEXT},
            hovertext=[_hover(run, one, joint, place) for place in places],
            hoverinfo="text",
            showlegend=False,
            name="nodes",
            customdata=[_ran_at(one, place) for place in places],
        )
    )
    if names:
        traces.append(_names(joint, places, where))
    traces += _legend()
    figure = go.Figure(traces)
    steps, frames, sampled = stops(run, one, joint, places)
    figure.frames = frames
    if sampled:
        notes.append(sampled)
    base = _layout(run, one, joint, where, notes)
    base["sliders"] = [slider(steps)]
    base["updatemenus"] = [buttons()]
    figure.update_layout(base)
    return figure


def _edges(
    joint: nx.MultiDiGraph,
    where: dict[Place, tuple[float, float]],
    crosses: bool,
    color: str,
    name: str,
    webgl: bool,
) -> Any:
    x: list[float | None] = []
    y: list[float | None] = []
    for first, second, across in joint.edges(data="crosses"):
        if across is crosses:
            x += [where[first][0], where[second][0], None]
            y += [where[first][1], where[second][1], None]
    line: dict[str, Any] = {"color": color, "width": 1.6 if crosses else 1.3}
    if crosses and not webgl:
        line["dash"] = "dash"
    make = go.Scattergl if webgl else go.Scatter
    return make(x=x, y=y, mode="lines", line=line, hoverinfo="skip", name=name)


def _ran_at(one: Pass, place: Place) -> int:
    part = one.parts[place[0]]
    return next((event for event, number in part.executed if number == place[1]), -1)


def _hover(run: Recording, one: Pass, joint: nx.MultiDiGraph, place: Place) -> str:
    data = joint.nodes[place]
    ran = _ran_at(one, place)
    message = data["message"]
    return table(
        [
            ("worker", run.name(place[0])),
            ("what", f"{_ROLES[data['role']]}: {ROLES[data['role']]}"),
            ("dependencies", f"{data['dependencies']} counted by the engine"),
            ("message", run.called.thing("message", message) if message >= 0 else ""),
            ("ran", hover(run, ran) if ran >= 0 else "never"),
            ("needed", "" if data["needed"] else "no: nothing asked for leads through it"),
        ],
        head=f"{short_name(data['name'])} (node {place[1]})",
    )


def _names(
    joint: nx.MultiDiGraph, places: list[Place], where: dict[Place, tuple[float, float]]
) -> Any:
    return go.Scatter(
        x=[where[place][0] for place in places],
        y=[where[place][1] + 0.33 for place in places],
        mode="text",
        text=[_brief(joint.nodes[place]["name"]) for place in places],
        textposition="bottom center",
        textfont={"size": 9.5, "color": MUTED},
        hoverinfo="skip",
        showlegend=False,
        name="names",
    )


def _brief(name: str) -> str:
    short = short_name(name).removesuffix("Backward0").removesuffix("Backward")
    short = {"AccumulateGrad": "leaf", "RecvRpc": "recv", "SendRpc": "send"}.get(short, short)
    return short if len(short) <= 14 else short[:13] + "…"


def _legend() -> list[Any]:
    return [
        go.Scatter(
            x=[None],
            y=[None],
            mode="markers",
            marker={"size": 12, "color": color, "symbol": symbol, "line": {"color": INK, "width": 1}},
            name=name,
            hoverinfo="skip",
        )
        for name, color, symbol in (
            ("waits for so many gradients", WAITING, "circle"),
            ("ready", READY, "circle"),
            ("just ran", ORANGE, "circle"),
            ("has run", RAN, "circle"),
            ("send", WAITING, "triangle-right"),
            ("recv", WAITING, "triangle-left"),
            ("leaf", WAITING, "square"),
        )
    ]  # fmt: skip


def _layout(
    run: Recording,
    one: Pass,
    joint: nx.MultiDiGraph,
    where: dict[Place, tuple[float, float]],
    notes: list[str],
) -> dict[str, Any]:
    workers = sorted({place[0] for place in joint})
    extent = {
        worker: [where[place][1] for place in joint if place[0] == worker] for worker in workers
    }
    lows = {worker: min(rows) - 0.65 for worker, rows in extent.items()}
    highs = {worker: max(rows) + 0.65 for worker, rows in extent.items()}
    shapes = [
        {
            "type": "rect",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": lows[worker],
            "y1": highs[worker],
            "fillcolor": BAND,
            "line": {"width": 0},
            "layer": "below",
        }
        for worker in workers
    ]
    sent = sum(1 for *_, across in joint.edges(data="crosses") if across)
    title = "The joint autograd graph: gradients flow to the right"
    count = f"{len(joint):,} nodes on {len(workers)} workers, {sent:,} message{'' if sent == 1 else 's'} between them"
    ended = "" if one.root.ended >= 0 else " · it never ended"
    error = f" · error: {one.root.error}" if one.root.error else ""
    text = f"pass {one.number} in the {run.called.context(one.context)}: {count}{ended}{error}"
    text = " · ".join([text, *notes])
    base: dict[str, Any] = dict(LAYOUT)
    return {
        **base,
        "meta": {"clock": "none", "title": title, "notes": [text]},
        "title": heading(f'<b>{title}</b><br><span style="color:{MUTED}">{text}</span>'),
        "margin": {"l": 12, "r": 20, "t": 84, "b": 100},
        "shapes": shapes,
        "xaxis": {"visible": False},
        "yaxis": {
            "tickvals": [(lows[w] + highs[w]) / 2 for w in workers],
            "ticktext": [run.name(worker) for worker in workers],
            "range": [max(highs.values()) + 0.2, min(lows.values()) - 0.2],
            "showgrid": False,
            "zeroline": False,
            "automargin": True,
        },
    }
