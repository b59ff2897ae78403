"""The lives of autograd contexts, and the backward passes in them, on each worker."""

from __future__ import annotations

import plotly.graph_objects as go

from squall.model.events.passes import PassPart, passes_of
from squall.real import tracing
from squall.sim.pictures.canvas import Clock
from squall.sim.pictures.glossary import about_context
from squall.sim.pictures.lifetimes import Row, State, draw_rows
from squall.sim.pictures.palette import (
    BLUE,
    INK,
    ORANGE,
    PALE_SKY,
    SKY,
    VERMILION,
)
from squall.sim.pictures.recording import Recording, recording

OPEN = State("context there", PALE_SKY, "", SKY)
ROOT = State("pass, begun here", BLUE)
PART = State("pass, begun by a gradient", ORANGE)
FAILED = State("pass with an error", VERMILION, "x", INK)
STATES = [OPEN, ROOT, PART, FAILED]


def contexts(run: object, *, clock: Clock = "auto") -> go.Figure:
    """A row for each autograd context on each worker, and for each backward pass there, from
    begin to end. Raises ValueError for an unknown clock."""
    run = recording(run)
    return draw_rows(
        run,
        _rows(run),
        STATES,
        clock=clock,
        title="Contexts and the passes in them",
        empty="no autograd context was made in this run",
        things="rows",
    )


def _rows(run: Recording) -> list[Row]:
    open_rows: dict[tuple[int, int], Row] = {}
    rows: list[Row] = []
    for number, (_, worker, _, type, values) in enumerate(run.records):
        if type is tracing.CONTEXT_CREATED:
            context = values[0]
            label = f"{run.called.thing('context', context)} on {run.name(worker)}"
            about = about_context(context, run.called.begun.get(context, ""))
            row = Row(label, worker, group=context, about=about)
            row.enter(number, OPEN)
            rows.append(row)
            open_rows[worker, context] = row
        elif type is tracing.CONTEXT_RELEASED:
            released = open_rows.pop((worker, values[0]), None)
            if released is not None:
                released.ended = number
        elif type in _MARKS:
            known = open_rows.get((worker, values[0]))
            if known is not None:
                symbol, text = _MARKS[type]
                other = values[1]
                known_worker = type in _ABOUT_WORKERS
                said = run.name(other) if known_worker else run.called.thing("message", other)
                known.marks.append((number, symbol, f"{text} {said}"))
    first: dict[object, int] = {}
    for row in rows:
        first.setdefault(row.group, row.first)
    parts = passes_of(run.run).parts
    by_context: dict[int, list[tuple[int, Row]]] = {}
    for row in rows:
        by_context.setdefault(int(str(row.group)), []).append((row.worker, row))
    found: list[Row] = []
    for context, there in by_context.items():
        for worker, row in there:
            found.append(row)
            found += [
                _pass(run, part)
                for part in parts
                if part.context == context and part.worker == worker and _during(row, part)
            ]
    return found


_ABOUT_WORKERS = (tracing.KNOWN_WORKER_ADDED, tracing.KNOWN_WORKER_REMOVED)
_MARKS = {
    tracing.SEND_ATTACHED: ("arrow-bar-left", "send function of"),
    tracing.RECV_ATTACHED: ("arrow-bar-left", "recv function of"),
    tracing.KNOWN_WORKER_ADDED: ("line-ns", "knows"),
    tracing.KNOWN_WORKER_REMOVED: ("line-ns", "no longer knows"),
    tracing.SEND_DETACHED: ("x", "no gradients will come for"),
    tracing.GRADIENTS_RECEIVED: ("diamond", "gradients came for"),
    tracing.GRADIENTS_SENT: ("diamond", "gradients left for"),
}


def _during(row: Row, part: PassPart) -> bool:
    return row.first <= part.started and (row.ended < 0 or part.started <= row.ended)


def _pass(run: Recording, part: PassPart) -> Row:
    label = f"pass on {run.name(part.worker)}"
    how = (
        "a user called backward() here"
        if part.roots
        else "it began here when the first gradient came"
    )
    about = f"{how}; its gradients are those of the {run.called.context(part.context)}"
    row = Row(label, part.worker, group=part.context, height=0.4, about=about)
    row.enter(part.started, FAILED if part.error else (ROOT if part.roots else PART))
    row.ended = part.ended
    if part.error:
        row.marks.append((part.ended, "x", f"error: {part.error}"))
    return row
