"""Lanes of work: what each task did, what it waited for, and the critical path through it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import plotly.graph_objects as go

from squall.sim.pictures.canvas import Canvas, Clock, Fill, bands, sample
from squall.sim.pictures.critical import critical_path, told
from squall.sim.pictures.flows import Task, message_of, tasks_of
from squall.sim.pictures.glossary import about_function
from squall.sim.pictures.labels import duration, hover, plain, table
from squall.sim.pictures.palette import BLACK
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.spans import (
    CONFIRM,
    FUNCTION,
    HANDLING,
    NODE,
    OPERATION,
    OTHER,
    PASS,
    QUEUED,
    REPLY,
    Activity,
    Span,
    spans_of,
)

#: beyond so many bars they are thick lines, drawn by WebGL
BARS_MOST = 4_000
#: beyond so many, a part of them is drawn
SPANS_MOST = 30_000


#: in the order in which they are drawn, the last on top
ACTIVITIES = (FUNCTION, REPLY, PASS, CONFIRM, QUEUED, OTHER, OPERATION, HANDLING, NODE)
_WIDTHS = {FUNCTION: 7, NODE: 5, HANDLING: 4}
#: rows that are shown at first: as many as have room for names of functions in them on a page
WINDOW = 8
_HEIGHTS = {FUNCTION: 0.88, NODE: 0.66, HANDLING: 0.4, OTHER: 0.3}


def work(
    run: object, *, clock: Clock = "auto", context: int | None = None, critical: bool = True
) -> go.Figure:
    """What each task of each worker did: user functions and autograd nodes by name, messages
    handled, waiting and queueing; and the critical path of a step (by default of the longest;
    ``context`` picks one), with what it was made of.

    Raises ValueError for an unknown clock or a context without a finished pass.
    """
    run = recording(run)
    canvas = Canvas(run, clock, "Work: what each task did, and what it waited for")
    lanes = _lanes(run)
    # Tasks that run before there are workers, and launch them, have no lane.
    spans = [span for span in spans_of(run) if span.task in lanes.rows]
    every = len(spans)
    lines = every > BARS_MOST
    if every > SPANS_MOST:
        by_length = sorted(range(every), key=lambda i: spans[i].first - spans[i].last)
        long = by_length[: SPANS_MOST // 2]
        spans = [spans[index] for index in sample(every, SPANS_MOST // 2, long)]
        canvas.note(
            f"{len(spans):,} of {every:,} spans are drawn, by WebGL: the longest, and evenly "
            "spread ones of the others"
        )
    elif lines:
        canvas.note(f"{every:,} spans, drawn by WebGL: zoom in for single ones")
    names = _shade(canvas, run, lanes)
    for activity in ACTIVITIES:
        group = [span for span in spans if span.activity is activity]
        if group:
            _draw(canvas, activity, group, lanes.rows, lines)
    if critical:
        _draw_critical(canvas, context, lanes.rows)
    canvas.violations(lambda worker: lanes.middle.get(worker, -1.0))
    failed = -1 if run.ok else int(run.workers_of[run.opened_at]) if len(run) else -1
    top = lanes.extent.get(failed, (0.0, 0.0))[0]
    return canvas.figure(
        names,
        window=WINDOW,
        first=min(sum(at < top for at in names), max(len(names) - WINDOW, 0)),
        last=max((high for _, high in lanes.extent.values()), default=0.0),
        barmode="overlay",
        legend_traceorder="normal",
    )


# -- lanes ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Lanes:
    #: task -> row
    rows: dict[int, float]
    #: worker -> its first and last row
    extent: dict[int, tuple[float, float]]

    @property
    def middle(self) -> dict[int, float]:
        return {worker: (low + high) / 2 for worker, (low, high) in self.extent.items()}


def _lanes(run: Recording) -> _Lanes:
    """Each task gets a lane of its worker that is free while it lives; long ones first."""
    ends: dict[int, int] = {}
    for span in spans_of(run):
        ends[span.task] = max(ends.get(span.task, -1), span.last)
    by_worker: dict[int, list[Task]] = {worker: [] for worker in run.workers}
    for task in tasks_of(run).values():
        if task.id and task.worker in by_worker:
            by_worker[task.worker].append(task)
    rows: dict[int, float] = {}
    extent: dict[int, tuple[float, float]] = {}
    at = 0.0
    for worker, tasks in by_worker.items():
        free: list[int] = []
        busy: list[tuple[int, int]] = []
        used = 0
        for task in sorted(tasks, key=lambda t: t.first):
            while busy and busy[0][0] < task.first:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if free:
                lane = heapq.heappop(free)
            else:
                lane, used = used, used + 1
            rows[task.id] = at + lane
            heapq.heappush(busy, (max(ends.get(task.id, -1), task.last), lane))
        used = max(used, 1)
        extent[worker] = (at, at + used - 1)
        at += used + 0.5
    return _Lanes(rows, extent)


def _shade(canvas: Canvas, run: Recording, lanes: _Lanes) -> dict[float, str]:
    canvas.shapes += bands([(low - 0.7, high + 0.7) for low, high in lanes.extent.values()])
    return {
        low + lane: run.name(worker) if not lane else f"{run.name(worker)}, thread {lane + 1}"
        for worker, (low, high) in lanes.extent.items()
        for lane in range(int(high - low) + 1)
    }


# -- drawing --------------------------------------------------------------------------------------


def _draw(
    canvas: Canvas, activity: Activity, spans: list[Span], rows: dict[int, float], lines: bool
) -> None:
    run = canvas.run
    label = f"{activity.name} ({len(spans):,})"
    at = [rows[span.task] for span in spans]
    hovers = [_hover(run, span) for span in spans]
    if lines:
        events: list[int] = []
        y: list[float | None] = []
        for span, row in zip(spans, at, strict=True):
            events += (span.first, span.last, -1)
            y += (row, row, None)
        color = activity.outline or activity.color
        canvas.lines(
            events, y, color=color, name=label, webgl=True, width=_WIDTHS.get(activity, 3),
            legendgroup=activity.name,
        )  # fmt: skip
        canvas.marks(
            [span.first for span in spans],
            at,
            hovers,
            marker={"color": color, "size": 4, "opacity": 0.6},
            name=label,
            webgl=True,
            showlegend=False,
            legendgroup=activity.name,
            custom=[(span.first, span.last) for span in spans],
        )
        return
    canvas.bars(
        [(span.first, span.last) for span in spans],
        at,
        hovers,
        fill=Fill(activity.color, activity.pattern, activity.outline),
        name=label,
        height=_HEIGHTS.get(activity, 0.68),
        labels=None if activity in (QUEUED, OTHER) else [span.label for span in spans],
    )


def _hover(run: Recording, span: Span) -> str:
    task = tasks_of(run)[span.task]
    how_long = "it never ended" if span.open else duration(run, span.first, span.last)
    return table(
        [
            ("task", plain(run.called.task(span.task, task.worker))),
            ("from", hover(run, span.first)),
            ("to", hover(run, span.last)),
            ("for", how_long),
            ("", span.detail),
            ("", about_function(span.label)),
            ("set off by", message_of(run, task.cause) if task.cause >= 0 else ""),
        ],
        head=f"{span.activity.name} {span.label}".strip(),
    )


def _draw_critical(canvas: Canvas, context: int | None, rows: dict[int, float]) -> None:
    run = canvas.run
    path = critical_path(run, context=context)
    if path is None or not path.hops:
        return
    step = run.called.context(path.context)
    events: list[int] = []
    y: list[float | None] = []
    texts: list[str] = []
    for hop in path.hops:
        # An arrival happens in no task: the line goes on to the task that the message starts.
        for event in (hop.first, hop.last):
            row = rows.get(run.records[event][2])
            if row is not None and (not events or events[-1] != event):
                events.append(event)
                y.append(row)
                said = table(
                    [("now", hover(run, event)), ("made of", str(path))],
                    head=f"critical path: {hop.part} {duration(run, hop.first, hop.last)}",
                )
                texts.append(said)
    canvas.traces.append(
        go.Scatter(
            x=canvas.x(events),
            y=y,
            mode="lines+markers",
            line={"color": BLACK, "width": 2.5},
            marker={"color": BLACK, "size": 4},
            opacity=0.75,
            name="critical path",
            hovertext=texts,
            hoverinfo="text",
            customdata=events,
            meta={"events": True},
        )
    )
    canvas.note(f"critical path of the step in the {step}: {told(run, path)}")
