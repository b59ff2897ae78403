"""Futures: every call from its start to its end, and where the time went."""

from __future__ import annotations

import plotly.graph_objects as go

from squall.sim.pictures.canvas import Clock
from squall.sim.pictures.flows import Call, call_name, calls_of
from squall.sim.pictures.lifetimes import Row, State, draw_rows
from squall.sim.pictures.palette import (
    BLUE,
    GREEN,
    OLIVE,
    PALE,
    PALE_GREY,
    PALE_RED,
    PALE_YELLOW,
    PURPLE,
    SKY,
    VERMILION,
)
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.space_time import describe

THERE = State("request on its way", SKY, "", SKY)
QUEUED = State("queued", PALE_GREY, "/", PALE)
CONFIRMING = State("waiting for confirmation", PALE_YELLOW, "/", OLIVE)
WORK = State("being handled", BLUE)
BACK = State("reply on its way", GREEN)
DELIVERY = State("reply being taken", PURPLE)
LOST = State("lost: nothing is under way", PALE_RED, "x", VERMILION)
#: events that pass between the arrival of a message and its handler where nobody queues
_AT_ONCE = 3
STATES = [THERE, QUEUED, CONFIRMING, WORK, BACK, DELIVERY, LOST]


def futures(run: object, *, clock: Clock = "auto") -> go.Figure:
    """A row for each call: its request on the way, queued, handled, its reply on the way; and
    what it came to. Raises ValueError for an unknown clock."""
    run = recording(run)
    rows = [_row(run, call) for call in calls_of(run)]
    return draw_rows(
        run,
        rows,
        STATES,
        clock=clock,
        title="Futures: every call, and what it waited for",
        empty="nobody called anybody in this run",
        things="calls",
    )


def _row(run: Recording, call: Call) -> Row:
    label = f"{call_name(run, call)}: {run.name(call.worker)} → {run.name(call.dst)}"
    row = Row(label, call.worker, group=call.started)
    row.enter(call.started, THERE)
    request, reply = call.request, call.reply
    end = call.ended if call.ended >= 0 else run.last
    steps: list[tuple[int, State]] = []
    if request is not None:
        if request.arrived >= 0:
            steps.append((request.arrived, QUEUED))
        elif request.dropped >= 0:
            steps.append((request.dropped, LOST))
    resumed = call.handler_resumed
    if call.handler_started >= 0:
        steps.append((call.handler_started, CONFIRMING if resumed >= 0 else WORK))
    if resumed >= 0:
        steps.append((resumed, WORK))
    if reply is not None:
        steps.append((reply.sent, BACK))
        if reply.arrived >= 0:
            steps.append((reply.arrived, DELIVERY))
        elif reply.dropped >= 0:
            steps.append((reply.dropped, LOST))
    for event, state in sorted(steps, key=lambda step: step[0]):
        if event <= end:
            row.enter(event, state)
    row.states = [
        (event, state)
        for index, (event, state) in enumerate(row.states)
        if state not in (QUEUED, DELIVERY) or not _at_once(run, row, index, end)
    ]
    row.ended = call.ended
    text = f"call {call.id}" + (f"<br>{describe(run, request)}" if request is not None else "")
    if call.outcome not in ("", "ok"):
        row.marks.append((call.ended, "x", f"it ended with {call.outcome}: {text}"))
    return row


def _at_once(run: Recording, row: Row, index: int, end: int) -> bool:
    """Whether a state was left as soon as it was entered."""
    first = row.states[index][0]
    last = row.states[index + 1][0] if index + 1 < len(row.states) else end
    return last - first <= _AT_ONCE and run.time_s(last) == run.time_s(first)
