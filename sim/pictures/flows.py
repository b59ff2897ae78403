"""Messages and calls, put together from the events at their two ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from squall.model.events.names import request_named
from squall.model.events.unwrapped import called
from squall.real import tracing
from squall.sim.pictures.palette import MessageStyle, kind_of
from squall.sim.pictures.recording import Recording


@dataclass(slots=True)
class Flow:
    """One copy of one message. ``sent``, ``arrived`` and ``dropped`` are numbers of events, -1
    where there is none."""

    number: int
    src: int
    dst: int
    type: str
    id: int
    size_bytes: int
    about: tuple[object, ...]
    sent: int
    arrived: int = -1
    dropped: int = -1
    reason: str = ""
    latency_s: float = 0.0
    #: how many copies of the same message came before it
    copy: int = 0
    #: how many attempts at the same call came before it
    retry: int = 0
    #: the message that set off the task that sent this one, or -1
    cause: int = -1

    @property
    def kind(self) -> MessageStyle:
        return kind_of(self.type)

    @property
    def end(self) -> int:
        """The event at which it is over: it arrived, or it was dropped; -1: still under way."""
        return self.arrived if self.arrived >= 0 else self.dropped

    @property
    def fate(self) -> str:
        if self.arrived >= 0:
            return f"arrived after {seconds(self.latency_s)}"
        if self.dropped >= 0:
            return f"dropped: {self.reason}"
        return "still under way at the end"


def name_of(run: Recording, flow: Flow) -> str:
    """A message by the function that it calls or whose result it brings, or else by what it is."""
    return run.called.message(flow.type, flow.src, flow.dst, flow.id)


def message_of(run: Recording, number: int) -> str:
    """A message by its number."""
    by_number: dict[int, Flow] | None = run.__dict__.get("_flows_by_number")
    if by_number is None:
        by_number = {flow.number: flow for flow in flows_of(run)}
        run.__dict__["_flows_by_number"] = by_number
    flow = by_number.get(number)
    return f"message {number}" + (f": {name_of(run, flow)}" if flow is not None else "")


def call_name(run: Recording, call: Call) -> str:
    """A call by its function, and the line that makes it where that is known; or else by what it asks for."""
    name = run.called.function(call.worker, call.id)
    place = run.places.get(call.started, "")
    name = name or request_named(call.inner)
    return f"{name} ({place})" if place else name


@dataclass(slots=True)
class Call:
    """One call of an agent, as its caller sees it: numbers of events, -1 where there is none."""

    worker: int
    id: int
    dst: int
    type: str
    timeout_s: float
    task: int
    started: int
    ended: int = -1
    outcome: str = ""
    request: Flow | None = None
    reply: Flow | None = None
    handler_started: int = -1
    handler_resumed: int = -1
    handler_ended: int = -1

    @property
    def inner(self) -> str:
        """The type of what was called, where it travels in a recorded forward message."""
        about = () if self.request is None else self.request.about
        return called(self.type, about)


def seconds(value: float) -> str:
    """A duration for readers, in the unit that suits it."""
    if value == 0:
        return "0 s"
    size = float(f"{abs(value):.4g}")  # as it is told: 1 ms, not 1000 µs
    for limit, unit, scale in ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (1e-6, "µs", 1e6)):
        if size >= limit:
            return f"{value * scale:.4g} {unit}"
    return f"{value * 1e9:.3g} ns"


def flows_of(run: Recording) -> list[Flow]:
    """All messages of a run, in the order in which they were sent. Read once."""
    known: list[Flow] | None = run.__dict__.get("_flows")
    if known is None:
        known = run.__dict__["_flows"] = _read_flows(run)
    return known


def _read_flows(run: Recording) -> list[Flow]:
    found: dict[int, Flow] = {}
    causes: dict[int, int] = {}
    requests: dict[tuple[int, int, int, str], int] = {}
    retries: dict[tuple[int, int, str], list[int]] = {}
    for number, (_, _, task, type, values) in enumerate(run.records):
        if type is tracing.TASK_STARTED:
            causes[task] = values[2]
        elif type is tracing.CALL_RETRIED:
            retries.setdefault((run.records[number][1], values[0], values[1]), []).append(values[2])
        elif type is tracing.MESSAGE_SENT:
            copy, src, dst, kind, id, size_bytes, about = values
            flow = Flow(copy, src, dst, kind, id, size_bytes, about, number)
            flow.cause = causes.get(task, -1)
            if id >= 0:  # pieces of operations of groups have none
                key = (src, dst, id, kind)
                flow.copy = requests.get(key, 0)
                requests[key] = flow.copy + 1
            attempts = retries.get((src, dst, kind))
            if attempts and task_is_retry(run, task):
                flow.retry = attempts.pop(0)
            found[copy] = flow
        elif type is tracing.MESSAGE_DELIVERED:
            arriving = found.get(values[0])
            if arriving is not None:
                arriving.arrived, arriving.latency_s = number, values[5]
        elif type is tracing.MESSAGE_DROPPED:
            lost = found.get(values[0])
            if lost is not None:
                lost.dropped, lost.reason = number, str(values[5])
    return list(found.values())


def task_is_retry(run: Recording, task: int) -> bool:
    """Whether a task was started to try a call again."""
    return tasks_of(run).get(task, Task(task)).name == "retry"


@dataclass(slots=True)
class Task:
    """One task: numbers of its first and last event, -1 where there is none."""

    id: int
    name: str = ""
    worker: int = -1
    parent: int = -1
    #: the number of the message that it was started for, or -1
    cause: int = -1
    first: int = -1
    last: int = -1
    ended: bool = False
    error: str | None = None


def tasks_of(run: Recording) -> dict[int, Task]:
    """All tasks that reported anything, by id. Read once."""
    known: dict[int, Task] | None = run.__dict__.get("_tasks")
    if known is not None:
        return known
    found: dict[int, Task] = {}
    workers = run.workers_of.tolist()
    for number, (_, _, id, type, values) in enumerate(run.records):
        task = found.get(id)
        if task is None:
            task = found[id] = Task(id, first=number)
        if type is tracing.TASK_STARTED:
            task.name, task.parent, task.cause = values
        elif type is tracing.TASK_ENDED:
            task.ended, task.error = True, values[0]
        if task.worker < 0:
            task.worker = workers[number]
        task.last = number
    run.__dict__["_tasks"] = found
    return found


def calls_of(run: Recording) -> list[Call]:
    """All calls of a run, in the order of their start. Read once."""
    known: list[Call] | None = run.__dict__.get("_calls")
    if known is None:
        known = run.__dict__["_calls"] = list(_read_calls(run))
    return known


def _read_calls(run: Recording) -> Iterable[Call]:
    found: list[Call] = []
    calls: dict[tuple[int, int], Call] = {}
    for number, (_, worker, task, type, values) in enumerate(run.records):
        if type is tracing.CALL_STARTED:
            id, dst, kind, timeout_s, _ = values
            call = Call(worker, id, dst, kind, timeout_s, task, number)
            calls[worker, id] = call
            found.append(call)
        elif type is tracing.CALL_ENDED:
            open = calls.get((worker, values[0]))
            if open is not None and open.ended < 0:
                open.ended, open.outcome = number, values[2]
        elif type in _HANDLER:
            asked = calls.get((values[0], values[2]))
            if asked is not None and asked.dst == worker:
                if type is tracing.HANDLER_STARTED and asked.handler_started < 0:
                    asked.handler_started = number
                elif type is tracing.HANDLER_RESUMED and asked.handler_resumed < 0:
                    asked.handler_resumed = number
                elif type is tracing.HANDLER_ENDED and asked.handler_ended < 0:
                    asked.handler_ended = number
    for flow in flows_of(run):
        sent = calls.get((flow.src, flow.id))
        if sent is not None and (sent.dst, sent.type) == (flow.dst, flow.type):
            sent.request = sent.request or flow
            continue
        answered = calls.get((flow.dst, flow.id))
        if answered is not None and answered.dst == flow.src and answered.reply is None:
            answered.reply = flow
    return found


_HANDLER = (tracing.HANDLER_STARTED, tracing.HANDLER_RESUMED, tracing.HANDLER_ENDED)
