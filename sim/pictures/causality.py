"""Which events caused which: the predecessors of each event, the causal past and future of a
message.

An event comes after the one before it in its task. The first one of a task comes after the
event that started the task: the arrival of a message, whatever its parent was at, or the call whose timeout
or next attempt it is. An arrival comes after the send. A task that waited goes on after what it waited for: the end of its call,
the end of its pass; where nothing of the kind is on record and time has passed meanwhile, after
what its worker did last at that instant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from squall.real import tracing
from squall.sim.pictures.flows import Flow, flows_of
from squall.sim.pictures.recording import Recording


class Causes(NamedTuple):
    """Per event the numbers of the events it follows, -1 for none: in its own task (or what
    started that), and from elsewhere (the send of a message, the end of a wait)."""

    before: NDArray[np.int32]
    elsewhere: NDArray[np.int32]


def causes_of(run: Recording) -> Causes:
    """The predecessors of each event. Worked out once."""
    known: Causes | None = run.__dict__.get("_causes")
    if known is None:
        known = run.__dict__["_causes"] = _causes(run)
    return known


def _causes(run: Recording) -> Causes:
    count = len(run)
    before, elsewhere = [-1] * count, [-1] * count
    last_of_task: dict[int, int] = {}
    last_of_worker: dict[int, int] = {}
    sent: dict[int, int] = {}
    arrived: dict[int, int] = {}
    calls: dict[tuple[int, int], int] = {}
    started: dict[tuple[int, int], int] = {}
    retries: dict[tuple[int, float], int] = {}
    passes: dict[tuple[int, int], int] = {}
    woken: dict[int, int] = {}
    workers = run.workers_of.tolist()
    for n, (time_s, _, task, type, values) in enumerate(run.records):
        worker = workers[n]
        previous = last_of_task.get(task, -1)
        if type is tracing.MESSAGE_DELIVERED or (type is tracing.MESSAGE_DROPPED and task == 0):
            elsewhere[n] = sent.get(values[0], -1)
        elif task == 0:
            before[n] = n - 1 if n and run.records[n - 1][2] == 0 else -1
        elif previous >= 0:
            before[n] = previous
            end = woken.pop(task, -1)
            if end > previous:
                elsewhere[n] = end
            elif time_s > run.records[previous][0] and previous != n - 1:
                other = last_of_worker.get(worker, -1)
                if other > previous and run.records[other][0] == time_s:
                    elsewhere[n] = other
        elif type is tracing.TASK_STARTED:
            _, parent, cause = values
            before[n] = last_of_task.get(parent, -1) if parent > 0 else arrived.get(cause, -1)
            if values[0] == "retry":
                elsewhere[n] = retries.pop((worker, round(time_s, 9)), -1)
        if type is tracing.MESSAGE_SENT:
            sent[values[0]] = n
        elif type is tracing.MESSAGE_DELIVERED:
            arrived[values[0]] = n
        elif type is tracing.CALL_STARTED:
            calls[worker, values[0]] = task
            started[worker, values[0]] = n
        elif type is tracing.CALL_RETRIED:
            retries[worker, round(time_s + values[3], 9)] = n
        elif type is tracing.CALL_ENDED:
            if values[2] == "timeout" and before[n] >= 0 and before[before[n]] < 0:
                # A timer ended it, which the call itself had set.
                elsewhere[before[n]] = started.get((worker, values[0]), -1)
            _wake(woken, calls.pop((worker, values[0]), -1), task, n)
        elif type is tracing.PASS_STARTED and values[1]:
            passes[worker, values[0]] = task
        elif type is tracing.PASS_ENDED:
            _wake(woken, passes.pop((worker, values[0]), -1), task, n)
        last_of_task[task] = n
        if worker >= 0:
            last_of_worker[worker] = n
    return Causes(np.array(before, np.int32), np.array(elsewhere, np.int32))


def _wake(woken: dict[int, int], waiting: int, task: int, event: int) -> None:
    if waiting >= 0 and waiting != task:
        woken[waiting] = event


def cone(run: Recording, flow: Flow) -> tuple[list[Flow], list[Flow]]:
    """The messages that ``flow`` depends on, and those that depend on it."""
    before, elsewhere = causes_of(run)
    past = np.zeros(len(run), bool)
    stack = [flow.sent]
    while stack:
        event = stack.pop()
        for cause in (int(before[event]), int(elsewhere[event])):
            if cause >= 0 and not past[cause]:
                past[cause] = True
                stack.append(cause)
    future = [False] * len(run)
    if flow.arrived >= 0:
        future[flow.arrived] = True
        for event in range(flow.arrived + 1, len(run)):
            first, second = before[event], elsewhere[event]
            future[event] = (first >= 0 and future[first]) or (second >= 0 and future[second])
    flows = flows_of(run)
    earlier = [other for other in flows if other.arrived >= 0 and past[other.arrived]]
    later = [other for other in flows if other is not flow and future[other.sent]]
    return earlier, later
