"""What tasks did, and what they waited for: spans between two events of a task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from squall.model.events.names import type_named
from squall.model.events.passes import passes_of
from squall.real import tracing
from squall.sim.pictures.causality import causes_of
from squall.sim.pictures.flows import Call, call_name, calls_of, tasks_of
from squall.sim.pictures.palette import (
    BLUE,
    GREEN,
    MUTED,
    OLIVE,
    ORANGE,
    PALE,
    PALE_GREY,
    PALE_ORANGE,
    PALE_PURPLE,
    PALE_SKY,
    PALE_YELLOW,
    PURPLE,
    SKY,
    VERMILION,
)
from squall.sim.pictures.recording import Recording


class Activity(NamedTuple):
    """A kind of thing that a task does or waits for, and how it is drawn."""

    name: str
    color: str
    pattern: str = ""
    outline: str | None = None


FUNCTION = Activity("user function", BLUE)
NODE = Activity("autograd node", VERMILION)
OPERATION = Activity("operation of a group", PALE_PURPLE, "", PURPLE)
HANDLING = Activity("handling a message", GREEN)
OTHER = Activity("other work", MUTED)
REPLY = Activity("waiting for a reply", PALE_SKY, "", SKY)
PASS = Activity("waiting for the pass", PALE_ORANGE, "", ORANGE)
CONFIRM = Activity("waiting for confirmation", PALE_YELLOW, "/", OLIVE)
QUEUED = Activity("queued or waiting", PALE_GREY, "", PALE)


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


def spans_of(run: Recording) -> list[Span]:
    """What all tasks did and waited for, in the order of its start. Worked out once."""
    known: list[Span] | None = run.__dict__.get("_spans")
    if known is None:
        found = [span for events in _events_by_task(run).values() for span in _of_task(run, events)]
        found += _confirmations(run)
        found += _operations(run)
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
    label = run.called.functions.get(task) or type_named(name)
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
            functions.append((event, run.called.began(task, values[0])))
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
                yield Span(task, burst, event, base, label)
            gap = _gap(run, task, event, following, open_calls, in_pass)
            yield _within(gap, functions)
            burst = following
    last = events[-1]
    if last > burst or len(events) == 1:
        yield Span(task, burst, last, base, label)
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
            label = call_name(run, call)
            return Span(task, first, last, REPLY, label, detail, not ended)
    if in_pass:
        return Span(task, first, last, PASS, "backward", "", not ended)
    return Span(task, first, last, QUEUED, "", "other tasks had their turn", not ended)


def _within(gap: Span, functions: list[tuple[int, str]]) -> Span:
    """A wait lies over the function that waits: it says which one that is."""
    if functions and gap.label:
        gap.label = f"{functions[-1][1]}: {gap.label}"
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
                f"{call_name(run, call)}: its RRef arguments are not confirmed yet",
            )


def _operations(run: Recording) -> Iterable[Span]:
    """Of process groups. Those of one member may overlap; sends and receives of one tag end in their order."""
    under_way: dict[tuple[object, ...], list[int]] = {}
    for event in run.run.of(tracing.OPERATION_STARTED, tracing.OPERATION_ENDED):
        _, _, _, type, (group, member, kind, number, last) = run.records[event]
        started = under_way.setdefault((group, member, kind, number), [])
        if type is tracing.OPERATION_STARTED:
            started.append(event)
        elif started:
            yield _operation(run, started.pop(0), event, last or "")
    for first in [each for started in under_way.values() for each in started]:
        yield _operation(run, first, run.last, "it never ended", True)


def _operation(run: Recording, first: int, last: int, end: str, open: bool = False) -> Span:
    _, _, task, _, (group, member, kind, number, size_bytes) = run.records[first]
    about = f"member {member} of process group {group} sends {size_bytes:,} bytes"
    detail = f"{about}; {end}" if end else about
    return Span(task, first, last, OPERATION, f"{kind} {number}", detail, open)
