"""The space-time diagram: a lane per worker, an arrow per message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from squall.sim.pictures.canvas import DRAWN_MOST, WEBGL_FROM, Canvas, Clock, bands, faded, sample
from squall.sim.pictures.causality import cone
from squall.sim.pictures.faults import draw_faults
from squall.sim.pictures.flows import Flow, call_name, calls_of, flows_of, message_of
from squall.sim.pictures.labels import hover, table
from squall.sim.pictures.palette import BLACK, GRID, INK, KINDS, MUTED, ORANGE, PALE, SKY
from squall.sim.pictures.recording import Recording, recording

#: messages of a kind whose functions are written beside their arrows, at most
_NAMED_MOST = 200


def space_time(
    run: object,
    *,
    clock: Clock = "auto",
    highlight: int | None = None,
    kinds: Sequence[str] | None = None,
) -> go.Figure:
    """A lane per worker, an arrow per message from where it was sent to where it arrived.

    ``clock``: ``time`` (virtual seconds), ``order`` (the number of the event) or ``auto``.
    ``highlight``: the number of a message whose causal past and future stand out. ``kinds``
    keeps messages of these kinds (``call``, ``gradient``, ``RRef control``, ``clean-up``,
    ``error``). Raises ValueError for an unknown clock, kind or message.
    """
    run = recording(run)
    known = [kind.name for kind in KINDS]
    for name in kinds or ():
        if name not in known:
            raise ValueError(f"kinds: {name!r} is unknown, expected some of {', '.join(known)}")
    canvas = Canvas(run, clock, "Space and time: who sent what to whom")
    flows = flows_of(run)
    if kinds is not None:
        flows = [flow for flow in flows if flow.kind.name in kinds]
    every = len(flows)
    notable = _notable(run, flows)
    flows = [flows[index] for index in sample(every, DRAWN_MOST, notable)]
    if len(flows) < every:
        canvas.note(
            f"{len(flows):,} of {every:,} messages are drawn: evenly spread ones, and all that "
            "were dropped, repeated or cited"
        )
    webgl = len(flows) > WEBGL_FROM
    if webgl:
        canvas.note(f"{len(flows):,} messages, drawn by WebGL: zoom in for single ones")
    rows = {worker: float(row) for row, worker in enumerate(run.workers)}
    draw(canvas, flows, rows, webgl=webgl)
    if highlight is not None:
        _highlight(canvas, highlight, rows)
    lanes = {row: run.name(worker) for worker, row in rows.items()}
    return canvas.figure(lanes, legend_traceorder="normal")


def draw(canvas: Canvas, flows: list[Flow], rows: dict[int, float], *, webgl: bool = False) -> None:
    """Lanes, messages, faults and violations; ``rows``: where the lane of each worker is."""
    _lanes(canvas, rows)
    draw_faults(canvas, rows)
    groups = [[f for f in flows if f.kind is kind and f.arrived >= 0] for kind in KINDS]
    if webgl:
        groups.sort(key=len, reverse=True)  # what is rare lies on top
    for group in groups:
        _arrows(canvas, group, rows, webgl)
    # Names lie on top of all arrows.
    canvas.traces += [
        _names(canvas, group, rows) for group in groups if 0 < len(group) <= _NAMED_MOST
    ]
    _lost(canvas, [flow for flow in flows if flow.arrived < 0], rows)
    _repeated(canvas, [flow for flow in flows if flow.copy or flow.retry], rows)
    canvas.violations(lambda worker: rows.get(worker, -0.5))


def _notable(run: Recording, flows: list[Flow]) -> list[int]:
    cited = {number for violation in run.violations for number in violation.events} | set(run.marks)
    return [
        index
        for index, flow in enumerate(flows)
        if flow.copy or flow.retry or flow.arrived < 0 or {flow.sent, flow.arrived} & cited
    ]


def _lanes(canvas: Canvas, rows: dict[int, float]) -> None:
    if len(rows) <= 16:
        canvas.shapes += bands([(row - 0.5, row + 0.5) for row in rows.values()])
    for row in rows.values():
        canvas.shapes.append(
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": row,
                "y1": row,
                "line": {"color": GRID if len(rows) > 16 else PALE, "width": 1},
                "layer": "below",
            }
        )


def describe(run: Recording, flow: Flow) -> str:
    """What hovering over a message says."""
    cause = message_of(run, flow.cause) if flow.cause >= 0 else "a task of its sender's own"
    more: list[tuple[str, object]] = []
    if flow.copy:
        more.append(("copy", f"number {flow.copy + 1} of the same message"))
    if flow.retry:
        more.append(("retry", f"attempt {flow.retry + 1}"))
    return table(
        [
            ("from", f"{run.name(flow.src)} {hover(run, flow.sent)}"),
            ("to", f"{run.name(flow.dst)} {hover(run, flow.end)}"),
            ("fate", flow.fate),
            ("size", f"{flow.size_bytes:,} bytes"),
            ("call", flow.id if flow.id >= 0 else ""),
            ("about", ", ".join(run.called.about(flow.type, flow.about))),
            ("set off by", cause),
            *more,
        ],
        head=message_of(run, flow.number),
    )


def _arrows(canvas: Canvas, flows: list[Flow], rows: dict[int, float], webgl: bool) -> None:
    if not flows:
        return
    kind = flows[0].kind
    events: list[int] = []
    y: list[float | None] = []
    for flow in flows:
        events += (flow.sent, flow.arrived, -1)
        y += (rows[flow.src], rows[flow.dst], None)
    width = 1.5 if len(flows) < 400 else 1.0
    canvas.lines(
        events,
        y,
        color=faded(kind.color, len(flows)) if webgl else kind.color,
        dash=kind.dash,
        width=width,
        name=kind.name if webgl else f"{kind.name} ({len(flows):,})",
        legendgroup=kind.name,
        showlegend=not webgl,
        webgl=webgl,
        opacity=0.85 if not webgl else 1.0,
    )
    marker: dict[str, Any] = {"color": kind.color, "size": 9 if len(flows) < 1000 else 6}
    if webgl:
        marker |= {"symbol": "circle", "size": 4, "opacity": 0.7}
    else:
        # Plotly cannot turn arrow heads along their lines: pointing up or down is enough.
        marker["symbol"] = [_head(rows[f.src], rows[f.dst]) for f in flows]
    texts = [describe(canvas.run, flow) for flow in flows]
    numbers = [flow.number for flow in flows]
    canvas.marks(
        [flow.arrived for flow in flows],
        [rows[flow.dst] for flow in flows],
        texts,
        marker=marker,
        name=f"{kind.name} ({len(flows):,})",
        legendgroup=kind.name,
        showlegend=webgl,
        webgl=webgl,
        custom=list(zip([f.arrived for f in flows], numbers, strict=True)),
    )
    # Invisible marks along an arrow, so that the mouse finds it easily.
    places = (0.5,) if len(flows) > 400 else (0.0, 0.33, 0.66)
    x0 = canvas.x([flow.sent for flow in flows])
    x1 = canvas.x([flow.arrived for flow in flows])
    for place in places if not webgl else ():
        canvas.traces.append(
            go.Scatter(
                x=x0 + (x1 - x0) * place,
                y=[rows[f.src] + (rows[f.dst] - rows[f.src]) * place for f in flows],
                mode="markers",
                marker={"size": 10, "opacity": 0, "color": kind.color},
                hovertext=texts,
                hoverinfo="text",
                showlegend=False,
                legendgroup=kind.name,
                name=kind.name,
                customdata=[(f.sent, f.number, f.arrived) for f in flows],
                meta={"between": place},
            )
        )


def _names(canvas: Canvas, flows: list[Flow], rows: dict[int, float]) -> go.Scatter:
    """The functions of calls, beside their arrows, with the lines that make them."""
    run = canvas.run
    made = {(call.worker, call.id): call for call in calls_of(run)}
    calls = [
        (flow, call_name(run, made[flow.src, flow.id]))
        for flow in flows
        if (flow.src, flow.id) in made
        and not flow.type.endswith(("RET", "RESP"))
        and run.called.function_of(flow.type, flow.src, flow.dst, flow.id)
    ]
    x0 = canvas.x([flow.sent for flow, _ in calls])
    x1 = canvas.x([flow.arrived for flow, _ in calls])
    at = 0.3
    return go.Scatter(
        x=x0 + (x1 - x0) * at,
        y=[rows[f.src] + (rows[f.dst] - rows[f.src]) * at for f, _ in calls],
        mode="text",
        text=[name for _, name in calls],
        textposition="middle right",
        textfont={"size": 11, "color": MUTED},
        hoverinfo="skip",
        showlegend=False,
        legendgroup=flows[0].kind.name,
        customdata=[(f.sent, f.number, f.arrived) for f, _ in calls],
        meta={"between": at},
    )


def _head(src: float, dst: float) -> str:
    if src == dst:
        return "diamond"
    return "triangle-down" if dst > src else "triangle-up"


def _lost(canvas: Canvas, flows: list[Flow], rows: dict[int, float]) -> None:
    dropped = [flow for flow in flows if flow.dropped >= 0]
    pending = [flow for flow in flows if flow.dropped < 0]
    last = canvas.run.last
    for name, group, symbol, dash in (
        ("dropped", dropped, "x", "solid"),
        ("still under way", pending, "circle-open", "dot"),
    ):
        if not group:
            continue
        events: list[int] = []
        y: list[float | None] = []
        ends = []
        for flow in group:
            # A lost message is drawn for part of the way: it never touches its receiver's lane.
            reached = rows[flow.src] + (rows[flow.dst] - rows[flow.src]) * 0.6
            end = flow.dropped if flow.dropped >= 0 else last
            events += (flow.sent, end, -1)
            y += (rows[flow.src], reached, None)
            ends.append((end, reached))
        label = f"{name} ({len(group):,})"
        canvas.lines(
            events, y, color=INK, dash=dash, width=1.3, name=label, showlegend=False,
            legendgroup=name,
        )  # fmt: skip
        canvas.marks(
            [end for end, _ in ends],
            [reached for _, reached in ends],
            [describe(canvas.run, flow) for flow in group],
            marker={"symbol": symbol, "size": 11, "color": BLACK, "line": {"width": 1.5}},
            name=label,
            legendgroup=name,
            custom=[(flow.sent, flow.number) for flow in group],
        )


def _repeated(canvas: Canvas, flows: list[Flow], rows: dict[int, float]) -> None:
    for name, group, symbol in (
        ("duplicate", [flow for flow in flows if flow.copy], "square-open"),
        ("retry", [flow for flow in flows if flow.retry], "star-triangle-up-open"),
    ):
        if group:
            canvas.marks(
                [flow.sent for flow in group],
                [rows[flow.src] for flow in group],
                [describe(canvas.run, flow) for flow in group],
                marker={"symbol": symbol, "size": 12, "color": INK, "line": {"width": 1.8}},
                name=f"{name} ({len(group):,})",
                custom=[(flow.sent, flow.number) for flow in group],
            )


def _highlight(canvas: Canvas, message: int, rows: dict[int, float]) -> None:
    run = canvas.run
    by_number = {flow.number: flow for flow in flows_of(run)}
    if message not in by_number:
        raise ValueError(f"highlight: there is no message {message} in this run")
    chosen = by_number[message]
    past, future = cone(run, chosen)
    for trace in canvas.traces:
        trace.opacity = 0.18
    for name, group, color in (
        ("its past", past, SKY),
        ("its future", future, ORANGE),
        ("the message", [chosen], BLACK),
    ):
        events: list[int] = []
        y: list[float | None] = []
        for flow in group:
            events += (flow.sent, flow.end if flow.end >= 0 else run.last, -1)
            y += (rows[flow.src], rows[flow.dst], None)
        canvas.lines(events, y, color=color, name=f"{name} ({len(group):,})", width=3)
