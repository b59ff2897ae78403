"""Where a campaign has been: how much behaviour it has seen, and when it reached what is rare."""

from __future__ import annotations

import math
from copy import deepcopy
from itertools import accumulate
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from squall.model.coverage.behaviour import SETS
from squall.model.coverage.history import History
from squall.sim.pictures.labels import heading, table
from squall.sim.pictures.palette import (
    BLACK,
    BLUE,
    GREEN,
    LAYOUT,
    MUTED,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
)

#: colour and dash of each set, in their order
_LINES = (
    (BLUE, "solid"),
    (VERMILION, "solid"),
    (GREEN, "dash"),
    (ORANGE, "solid"),
    (SKY, "dash"),
    (PURPLE, "dot"),
    (BLACK, "dashdot"),
)
#: pixels of the curves, of each situation, and around both
_CURVES, _ROW, _AROUND = 330, 17, 150


def coverage(history: History) -> go.Figure:
    """The growth of each set of facts over the scenarios of a campaign, and below it the scenario
    that first reached each rare situation, the earliest first; those that none reached stand at the
    end, in red."""
    rows = sorted(
        history.reached,
        key=lambda name: (history.reached[name] is None, history.reached[name], name),
    )
    lower = max(_ROW * len(rows), 1)
    figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=30 / (_CURVES + lower + _AROUND),
        row_heights=[_CURVES, lower],
    )
    for (name, what), (color, dash) in zip(SETS.items(), _LINES, strict=True):
        if name in history.sets:
            figure.add_trace(_curve(history, name, what, color, dash), row=1, col=1)
    for trace in _situations(history, rows):
        figure.add_trace(trace, row=2, col=1)
    _finish(figure, history, rows)
    for number, name in _ends_of_parts(history):
        _mark(figure, number, name)
    figure.update_layout(height=_CURVES + lower + _AROUND)
    return figure


def _curve(history: History, name: str, what: str, color: str, dash: str) -> go.Scatter:
    counts = history.sets[name]
    return go.Scatter(
        x=history.at,
        y=counts,
        mode="lines",
        line={"color": color, "dash": dash, "width": 2, "shape": "hv"},
        name=what,
        hovertext=[
            table([("scenarios", f"{at:,}"), ("seen", f"{count:,}")], head=what)
            for at, count in zip(history.at, counts, strict=True)
        ],
        hoverinfo="text",
    )


def _reached(history: History, name: str) -> list[tuple[str, str]]:
    told = [("first", f"scenario {history.reached[name]:,}")]
    if name in history.times:
        told.append(("in", f"{history.times[name]:,} of {history.scenarios:,}"))
    return told


def _situations(history: History, rows: list[str]) -> list[go.Scatter]:
    """A mark where each was reached first, and one at the end for those that never were."""
    found = [name for name in rows if history.reached[name] is not None]
    never = [name for name in rows if history.reached[name] is None]
    common: dict[str, Any] = {"mode": "markers", "hoverinfo": "text"}
    return [
        go.Scatter(
            x=[history.reached[name] for name in found],
            y=found,
            marker={"color": BLUE, "size": 9, "symbol": "circle"},
            name="reached first",
            hovertext=[table(_reached(history, name), head=name) for name in found],
            **common,
        ),
        go.Scatter(
            x=[max(history.scenarios, 1)] * len(never),
            y=never,
            marker={"color": VERMILION, "size": 9, "symbol": "x-thin-open"},
            name="never reached",
            hovertext=[f"{name}: never reached" for name in never],
            **common,
        ),
    ]


def _ends_of_parts(history: History) -> list[tuple[int, str]]:
    """Where the parts of a campaign end, but for the last."""
    ends = accumulate(history.parts.values())
    named = [(end, f"end of the {name}") for name, end in zip(history.parts, ends, strict=True)]
    return [
        (end, text)
        for (end, text), count in zip(named, history.parts.values(), strict=True)
        if count and end < history.scenarios
    ]


def _mark(figure: go.Figure, number: int, text: str) -> None:
    """A line through both pictures after so many scenarios."""
    line = {"color": PALE, "dash": "dot"}
    figure.add_shape(type="line", x0=number, x1=number, y0=0, y1=1, yref="paper", line=line)
    figure.add_annotation(
        x=math.log10(number),  # on such an axis a shape is at a number, an annotation at its power
        y=1,
        yref="paper",
        yanchor="top",
        xanchor="right",
        text=text,
        showarrow=False,
        font={"size": 11, "color": MUTED},
    )


def _finish(figure: go.Figure, history: History, rows: list[str]) -> None:
    base = deepcopy(dict(LAYOUT))
    axes = {"xaxis": base.pop("xaxis"), "yaxis": base.pop("yaxis")}
    title = f"<b>{history.title or 'What a campaign has seen'}</b>"
    note = f"{history.scenarios:,} scenarios; numbers of scenarios, and of facts, by powers of ten"
    base["title"] = heading(f'{title}<br><span style="color:{MUTED}">{note}</span>')
    base["margin"]["t"] = 110
    figure.update_layout(base)
    figure.update_xaxes(**axes["xaxis"])
    figure.update_yaxes(**axes["yaxis"])
    figure.update_xaxes(type="log", showgrid=True)
    figure.update_xaxes(title_text="scenarios", row=2, col=1)
    figure.update_yaxes(type="log", title_text="facts seen", showgrid=True, row=1, col=1)
    figure.update_yaxes(
        categoryorder="array", categoryarray=rows[::-1], title_text="", row=2, col=1
    )
