"""Lanes of work: what each task did, what it waited for, and the critical path through it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import plotly.graph_objects as go

from model.passes import passes_of
from real import tracing
from sim.timeline.canvas import (
    Canvas,
    Clock,
    bands,
    context_name,
    duration,
    hover,
    sample,
    table,
)
from sim.timeline.causality import causes_of
from sim.timeline.critical import critical_path
from sim.timeline.flows import Call, Task, calls_of, tasks_of
from sim.timeline.palette import (
    BLACK,
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PALE,
    SKY,
    VERMILION,
    message_name,
)
from sim.timeline.recording import Recording, recording

#: beyond so many bars they are thick lines, drawn by WebGL
BARS_MOST = 4_000
#: beyond so many, a part of them is drawn
SPANS_MOST = 30_000


class Activity(NamedTuple):
    """A kind of thing that a task does or waits for, and how it is drawn."""

    name: str
    color: str
    pattern: str = ""
    outline: str | None = None


FUNCTION = Activity("user function", BLUE)
NODE = Activity("autograd node", VERMILION)
HANDLING = Activity("handling a message", GREEN)
OTHER = Activity("other work", MUTED)
REPLY = Activity("waiting for a reply", "#d4ecf9", "", SKY)
PASS = Activity("waiting for the pass", "#fbe7c6", "", ORANGE)
CONFIRM = Activity("waiting for confirmation", "#fbf6c0", "/", "#a89b00")
QUEUED = Activity("queued or waiting", "#eff0f3", "", PALE)
#: in the order in which they are drawn, the last on top
ACTIVITIES = (FUNCTION, REPLY, PASS, CONFIRM, QUEUED, OTHER, HANDLING, NODE)
_WIDTHS = {FUNCTION: 7, NODE: 5, HANDLING: 4}
_HEIGHTS = {FUNCTION: 0.88, NODE: 0.66, HANDLING: 0.4, OTHER: 0.3}


@dataclass(slots=True)
class Span:
    """Something a task does from one event to another. ``open``: it never ended."""

    task: int
    first: int
    last: int
    activity: Activity
    label: str
    detail: str = ""
    open: bool = False


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
    # What runs before there are workers, and launches them, has no lane.
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
    return canvas.figure(
        names,
        last=max((high for _, high in lanes.extent.values()), default=0.0),
        barmode="overlay",
        legend_traceorder="normal",
    )


# -- spans ----------------------------------------------------------------------------------------


def spans_of(run: Recording) -> list[Span]:
    """What all tasks did and waited for, in the order of its start. Worked out once."""
    known: list[Span] | None = run.__dict__.get("_spans")
    if known is None:
        found = [span for events in _events_by_task(run).values() for span in _of_task(run, events)]
        found += _confirmations(run)
        found.sort(key=lambda span: (span.first, -span.last))
        known = run.__dict__["_spans"] = found
    return known


def _events_by_task(run: Recording) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, record in enumerate(run.records):
        if record[2]:
            found.setdefault(record[2], []).append(number)
    return found


def _of_task(run: Recording, events: list[int]) -> Iterable[Span]:
    task = run.records[events[0]][2]
    name = tasks_of(run)[task].name
    base = HANDLING if name.isupper() or name == "reply" else OTHER
    open_calls: list[int] = []
    functions: list[tuple[int, str]] = []
    in_pass = 0
    burst = events[0]
    for event, following in zip(events, [*events[1:], -1], strict=True):
        type, values = run.records[event][3:]
        if type is tracing.CALL_STARTED:
            open_calls.append(event)
        elif type is tracing.PASS_STARTED and values[1]:
            in_pass += 1
        elif type is tracing.PASS_ENDED:
            in_pass = max(in_pass - 1, 0)
        elif type is tracing.UDF_STARTED:
            functions.append((event, values[0]))
        elif type is tracing.UDF_ENDED and functions:
            first, function = functions.pop()
            error = f"raised {values[1]}" if values[1] else ""
            yield Span(task, first, event, FUNCTION, function, error)
        elif type is tracing.NODE_EXECUTED:
            node = _node_name(run, event)
            end = following if following == event + 1 else event
            yield Span(task, event, end, NODE, node, f"node {values[1]}")
        if following < 0:
            break
        if following != event + 1 or run.time_s(following) > run.time_s(event):
            if event > burst:
                yield Span(task, burst, event, base, message_name(name))
            gap = _gap(run, task, event, following, open_calls, in_pass)
            yield _within(gap, functions)
            burst = following
    last = events[-1]
    if last > burst or len(events) == 1:
        yield Span(task, burst, last, base, message_name(name))
    if run.records[last][3] is not tracing.TASK_ENDED and last < run.last and name:
        gap = _gap(run, task, last, run.last, open_calls, in_pass, ended=False)
        yield _within(gap, functions)
    for first, function in functions:
        yield Span(task, first, run.last, FUNCTION, function, "it never returned", True)


def _gap(
    run: Recording,
    task: int,
    first: int,
    last: int,
    open_calls: list[int],
    in_pass: int,
    *,
    ended: bool = True,
) -> Span:
    by_start = _calls_by_start(run)
    ends = int(causes_of(run).elsewhere[last]) if ended else -1
    for start in reversed(open_calls):
        call = by_start[start]
        if (ended and call.ended == ends >= 0) or (not ended and call.ended < 0):
            open_calls.remove(start)
            detail = f"call {call.id} to {run.name(call.dst)}"
            return Span(task, first, last, REPLY, message_name(call.inner), detail, not ended)
    if in_pass:
        return Span(task, first, last, PASS, "backward", "", not ended)
    return Span(task, first, last, QUEUED, "", "other tasks had their turn", not ended)


def _within(gap: Span, functions: list[tuple[int, str]]) -> Span:
    """A wait lies over the function that waits: it says which one that is."""
    if functions and gap.label:
        gap.label = f"{functions[-1][1]} · {gap.label}"
    return gap


def _calls_by_start(run: Recording) -> dict[int, Call]:
    known: dict[int, Call] | None = run.__dict__.get("_calls_by_start")
    if known is None:
        known = run.__dict__["_calls_by_start"] = {call.started: call for call in calls_of(run)}
    return known


def _node_name(run: Recording, event: int) -> str:
    known: dict[int, str] | None = run.__dict__.get("_node_names")
    if known is None:
        known = run.__dict__["_node_names"] = {
            number: short_name(part.found[node].name) if node in part.found else f"node {node}"
            for part in passes_of(run.run).parts
            for number, node in part.executed
        }
    return known.get(event, "node")


def short_name(node: str) -> str:
    """The name of an autograd node without where it lives: ``MulBackward0``."""
    return node.rpartition("::")[2]


def _confirmations(run: Recording) -> Iterable[Span]:
    for call in calls_of(run):
        if call.handler_resumed > call.handler_started >= 0:
            task = run.records[call.handler_started][2]
            yield Span(
                task,
                call.handler_started,
                call.handler_resumed,
                CONFIRM,
                "confirmation",
                f"{message_name(call.type)}: its RRef arguments are not confirmed yet",
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
    return {lanes.middle[worker]: run.name(worker) for worker in lanes.extent}


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
        color=activity.color,
        pattern=activity.pattern,
        outline=activity.outline,
        name=label,
        height=_HEIGHTS.get(activity, 0.54),
        labels=None if activity in (QUEUED, OTHER) else [span.label for span in spans],
        textfont={"size": 11, "color": "white" if activity in (FUNCTION, NODE, HANDLING) else INK},
    )


def _hover(run: Recording, span: Span) -> str:
    task = tasks_of(run)[span.task]
    how_long = "it never ended" if span.open else duration(run, span.first, span.last)
    return table(
        [
            ("task", f"{span.task} ({task.name}) of {run.name(task.worker)}"),
            ("from", hover(run, span.first)),
            ("to", hover(run, span.last)),
            ("for", how_long),
            ("", span.detail),
            ("set off by", f"message {task.cause}" if task.cause >= 0 else ""),
        ],
        head=f"{span.activity.name} {span.label}".strip(),
    )


def _draw_critical(canvas: Canvas, context: int | None, rows: dict[int, float]) -> None:
    run = canvas.run
    path = critical_path(run, context=context)
    if path is None or not path.hops:
        return
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
    canvas.note(f"critical path of context {context_name(path.context)}: {path}")
