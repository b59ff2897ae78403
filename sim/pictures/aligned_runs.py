"""Runs of one scenario, one above the other, aligned where they part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from squall.sim.pictures.canvas import Canvas
from squall.sim.pictures.flows import flows_of
from squall.sim.pictures.labels import hover
from squall.sim.pictures.palette import BY_ITSELF, INK, MUTED, PAPER
from squall.sim.pictures.recording import Recording
from squall.sim.pictures.space_time import draw

#: events that are shown at first: before the place where runs part, after it at least, and after it at most
_BEFORE, _AFTER, _AFTER_MOST = 14, 40, 120
#: messages that are sent so many events away from there are left out
_NEAR = 600
#: messages that are seen after a click in the legend
_BY_ITSELF = [kind.name for kind in BY_ITSELF]
#: between the lanes of one run and those of the next, in lanes; and pixels of a lane, and around all of them
_APART, _LANE, _AROUND = 1.2, 62, 170


class Side(NamedTuple):
    """A run, what it is called, and what is pointed out in it, by event."""

    name: str
    run: Recording
    marks: Mapping[int, str]


def beside(sides: Sequence[Side], parted: int, title: str = "") -> go.Figure:
    """The space and time of each run, aligned by the number of the event, since they are the same up to ``parted``.
    What is pointed out has the same number in each."""
    numbers = {text: n for n, text in enumerate(_texts(sides), start=1)}
    whole = Canvas(sides[0].run, "order", title)
    lanes: dict[float, str] = {}
    top = 0.0
    for side in sides:
        canvas = Canvas(side.run, "order")
        rows = {worker: top + row for row, worker in enumerate(side.run.workers)}
        flows = [flow for flow in flows_of(side.run) if abs(flow.sent - parted) <= _NEAR]
        if len(flows) < len(flows_of(side.run)):
            whole.note(f"what is sent within {_NEAR} events of there is drawn")
        draw(canvas, flows, rows)
        _mark(canvas, side, rows, numbers)
        _add(whole, canvas)
        whole.annotations.append(_heading(side.name, top - 0.6))
        lanes |= {row: side.run.name(worker) for worker, row in rows.items()}
        top += len(rows) - 1 + _APART
    if len(sides) > 1:
        _parting(whole, parted)
    whole.height = round(_LANE * (len(lanes) + _APART * (len(sides) - 1)) + _AROUND)
    shown = _shown(sides, parted)
    figure = whole.figure(lanes, legend_traceorder="normal", xaxis_range=shown)
    return figure.update_yaxes(range=[max(lanes) + 0.6, -0.95])


def _texts(sides: Iterable[Side]) -> list[str]:
    """What is pointed out, in the order of the first run that has it."""
    return list(dict.fromkeys(side.marks[n] for side in sides for n in sorted(side.marks)))


def _shown(sides: Sequence[Side], parted: int) -> list[float]:
    marks = [n for side in sides for n in side.marks if abs(n - parted) <= _AFTER_MOST]
    first = min([parted, *marks]) - _BEFORE
    last = max([parted + _AFTER - _BEFORE, *marks]) + _BEFORE
    return [max(first, -1), min(last, max(side.run.last for side in sides) + 1)]


def _add(whole: Canvas, canvas: Canvas) -> None:
    """Put what is drawn of one run into the picture of all; each kind is in the legend once."""
    known = {trace.name for trace in whole.traces if trace.showlegend is not False}
    for trace in canvas.traces:
        trace.name = trace.legendgroup or trace.name
        if trace.name in _BY_ITSELF:
            trace.visible = "legendonly"
        if trace.name in known:
            trace.showlegend = False
        elif trace.showlegend is not False:
            known.add(trace.name)
    whole.traces += canvas.traces
    whole.shapes += canvas.shapes
    whole.annotations += canvas.annotations


def _mark(
    canvas: Canvas, side: Side, rows: Mapping[int, float], numbers: Mapping[str, int]
) -> None:
    """A number at each event that is pointed out, and what it means in the legend."""
    workers = side.run.workers_of
    for event, text in sorted(side.marks.items(), key=lambda item: numbers[item[1]]):
        canvas.marks(
            [event],
            [rows.get(int(workers[event]), min(rows.values(), default=0.0) - 0.4)],
            [f"<b>{text}</b><br>{hover(side.run, event)}"],
            marker={"symbol": "circle", "size": 19, "color": INK},
            name=f"{numbers[text]}: {text}",
            mode="markers+text",
            text=[str(numbers[text])],
            textfont={"color": PAPER, "size": 12},
        )


def _heading(name: str, y: float) -> dict[str, Any]:
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": y, "yref": "y"}
    return {**place, "text": f"<b>{name}</b>", "showarrow": False, "font": {"size": 13}}


def _parting(canvas: Canvas, parted: int) -> None:
    line = {"color": MUTED, "width": 1.5, "dash": "dot"}
    place = {"x0": parted - 0.5, "x1": parted - 0.5, "yref": "paper", "y0": 0, "y1": 1}
    canvas.shapes.append({"type": "line", **place, "line": line})
    canvas.annotations.append(
        {
            "text": " ← the same up to here",
            "x": parted - 0.5,
            "xanchor": "left",
            "y": 0,
            "yref": "paper",
            "yanchor": "bottom",
            "showarrow": False,
            "font": {"size": 11, "color": MUTED},
        }
    )
