"""What each call led to: a tree for each call, backward pass and operation of a group that a worker makes by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from squall.model.events.passes import PassPart
from squall.real import tracing
from squall.sim.pictures.flows import Call, Flow, call_name, calls_of, flows_of
from squall.sim.pictures.palette import GRADIENT, GROUP, MessageStyle, kind_of
from squall.sim.pictures.passes import passes
from squall.sim.pictures.recording import Recording
from squall.sim.pictures.spans import OPERATION, Span, spans_of

NEVER_ENDED = "it never ended"


@dataclass(slots=True)
class Branch:
    """A call, a backward pass or an operation of a group. ``first``, ``last``, ``began`` and ``ended`` are numbers of
    events, -1 where there is none: from its start to its end, and as long as the worker that is called handles it."""

    name: str
    kind: MessageStyle
    worker: int
    first: int
    last: int
    error: str
    to: int = -1
    began: int = -1
    ended: int = -1
    #: the number of its request
    message: int = -1
    #: the place in the list of what led to it, -1: its worker made it by itself
    parent: int = -1


@dataclass(slots=True)
class CallTree:
    """``branches`` in the order of their start; ``of_event``: to which of them each event belongs, -1 for none."""

    branches: list[Branch]
    of_event: list[int]


def call_tree(run: Recording) -> CallTree:
    """All calls of a run, and what led to each: the call that its task handles or whose reply that takes, or the
    backward pass that the task is in."""
    of_call = {(call.worker, call.id): (call, _call(run, call)) for call in calls_of(run)}
    of_pass = [_pass(run, one.root) for one in passes(run)]
    operations = [_operation(run, span) for span in spans_of(run) if span.activity is OPERATION]
    branches = [*(branch for _, branch in of_call.values()), *of_pass, *operations]
    branches.sort(key=lambda branch: branch.first)
    number = {branch.first: n for n, branch in enumerate(branches)}
    carried = {
        flow.number: number[branch.first]
        for flow in flows_of(run)
        if (branch := _carrying(flow, of_call)) is not None
    }
    tree = CallTree(branches, [-1] * len(run))
    _connect(run, tree, carried, {branch.first: branch.last for branch in of_pass})
    return tree


def _carrying(flow: Flow, calls: dict[tuple[int, int], tuple[Call, Branch]]) -> Branch | None:
    """The call of which a message is the request or the reply."""
    asked, answered = calls.get((flow.src, flow.id)), calls.get((flow.dst, flow.id))
    if asked is not None and (asked[0].dst, asked[0].type) == (flow.dst, flow.type):
        return asked[1]
    return answered[1] if answered is not None and answered[0].dst == flow.src else None


def _connect(
    run: Recording, tree: CallTree, carried: dict[int, int], passes: dict[int, int]
) -> None:
    """``carried``: the branch of each message. ``passes``: the ends of passes by their starts."""
    number = {branch.first: n for n, branch in enumerate(tree.branches)}
    of_task: dict[int, int] = {}
    leaves: dict[int, tuple[int, int]] = {}
    for n, (_, _, task, type, values) in enumerate(run.records):
        if type is tracing.TASK_STARTED:
            _, parent, cause = values
            found = of_task.get(parent, -1) if parent > 0 else -1
            of_task[task] = found if found >= 0 else carried.get(cause, -1)
        within = of_task.get(task, -1)
        if n in number:
            tree.branches[number[n]].parent = within
            within = number[n]
        elif type in _MESSAGES:
            within = carried.get(values[0], within)
        elif type is tracing.UDF_ENDED and values[1] and within >= 0:
            tree.branches[within].error = tree.branches[within].error or f"raised {values[1]}"
        tree.of_event[n] = within
        if n in passes:
            # What the task does until the end of the pass, which may come in another task, belongs to it.
            leaves[passes[n]] = task, of_task.get(task, -1)
            of_task[task] = within
        elif n in leaves:
            task, of_task[task] = leaves[n]


_MESSAGES = (tracing.MESSAGE_SENT, tracing.MESSAGE_DELIVERED, tracing.MESSAGE_DROPPED)


def _call(run: Recording, call: Call) -> Branch:
    return Branch(
        call_name(run, call),
        kind_of(call.type),
        call.worker,
        call.started,
        call.ended,
        _call_error(run, call),
        call.dst,
        call.handler_started,
        call.handler_ended,
        -1 if call.request is None else call.request.number,
    )


def _call_error(run: Recording, call: Call) -> str:
    """What a call came to, if not to a result, and what became of its messages."""
    if call.outcome == "ok":
        return ""
    if call.outcome == "error" and call.handler_ended >= 0:
        error: str | None = run.records[call.handler_ended][4][3]
        if error:
            return error.strip().rpartition("\n")[2]
    told = [call.outcome or NEVER_ENDED]
    for name, flow in (("request", call.request), ("reply", call.reply)):
        if flow is not None and flow.arrived < 0:
            told.append(f"{name} {flow.fate}")
    return ", ".join(told)


def _pass(run: Recording, root: PassPart) -> Branch:
    error = root.error or ("" if root.ended >= 0 else NEVER_ENDED)
    return _own(run, "backward", GRADIENT, root.started, root.ended, error)


def _operation(run: Recording, span: Span) -> Branch:
    error: Any = NEVER_ENDED if span.open else run.records[span.last][4][4]
    last = -1 if span.open else span.last
    return _own(run, span.label, GROUP, span.first, last, error or "")


def _own(
    run: Recording, name: str, kind: MessageStyle, first: int, last: int, error: str
) -> Branch:
    """What a worker does without calling another one."""
    place = run.places.get(first, "")
    told = f"{name} ({place})" if place else name
    return Branch(told, kind, int(run.workers_of[first]), first, last, error)
