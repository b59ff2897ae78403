"""Who waits for what, when nothing can happen any more: in words, and as plain data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from squall.model.events.waiting import Waiting
from squall.real.future import Future
from squall.real.rpc.message import Message
from squall.sim.world.places import place_of
from squall.sim.world.primitives import Scheduler, SimEvent, SimLock, SimTask
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.trace import TraceWriter

_PASS = re.compile(r"backward pass in context (\d+)")


@runtime_checkable
class Awaited(Protocol):
    """A thing that can say by itself what a task waits for that waits on it."""

    def awaited_by(self, task: SimTask) -> str:
        """What ``task`` waits for here, in words."""


class Deadlock(RuntimeError):  # noqa: N818 - it is what happened, not a mishap of ours
    """No event is left and tasks still wait. ``waits`` has a line for each, ``waiting`` the same
    for the wait-for graph."""

    def __init__(self, waits: list[str], waiting: Sequence[Waiting] = ()) -> None:
        super().__init__("nothing can happen any more and somebody waits:\n" + "\n".join(waits))
        self.waits = waits
        self.waiting = list(waiting)


def deadlock(runtime: SimRuntime) -> Deadlock:
    """What to raise when nothing can happen any more and somebody waits."""
    return Deadlock(explain(runtime), waiting(runtime))


def explain(runtime: Scheduler, tasks: Iterable[SimTask] | None = None) -> list[str]:
    """A line for each task that waits: worker, task, what for, since when."""
    return [_line(task) for task in (tasks if tasks is not None else runtime.tasks)]


def _line(task: SimTask) -> str:
    where = task.worker.name if task.worker is not None and task.worker.name else "-"
    place = place_of(None if task.glet is None else task.glet.gr_frame)
    text = f"{where}: {task.name} waits for {_what(task)} since t={task.waiting_since:.6f} s"
    return f"{text}, at {place}" if place else text


def waiting(runtime: SimRuntime, tasks: Iterable[SimTask] | None = None) -> list[Waiting]:
    """What each task waits for that does, in order of creation; those that sleep left out."""
    tracer = runtime.tracer
    noted = len(tracer.trace) if isinstance(tracer, TraceWriter) else None
    return [
        _waiting(task)._replace(noted=noted)
        for task in (tasks if tasks is not None else runtime.tasks)
        if task.glet is not None and task.waiting_on is not None and task.waiting_on != "sleep"
    ]


def _waiting(task: SimTask) -> Waiting:
    on = task.waiting_on
    worker = task.worker.id if task.worker is not None else -1
    plain = Waiting(task.id, task.name, worker, task.waiting_since, _what(task))
    thing = on
    while isinstance(thing, SimEvent | Future):
        thing = thing.what
    if isinstance(thing, Message):
        return plain._replace(call=(thing.src, thing.id))
    if isinstance(on, SimLock) and on.owner is not None:
        return plain._replace(holder=on.owner.id)
    match = _PASS.fullmatch(str(thing))
    return plain if match is None else plain._replace(context=int(match[1]))


def _what(task: SimTask) -> str:
    """What a task waits for, in words."""
    on = task.waiting_on
    return on.awaited_by(task) if isinstance(on, Awaited) else _named(on)


def _named(thing: object) -> str:
    if isinstance(thing, SimEvent):
        return _named(thing.what)
    if isinstance(thing, SimLock):
        return f"the lock {thing.what!s}".rstrip()
    if isinstance(thing, Future):
        return _named(thing.what) if thing.what != "" else "a future that nobody completed"
    if isinstance(thing, Message):
        ids = f" {thing.about}" if thing.about else ""
        return f"the reply to {thing.type.name}{ids} (id {thing.id}) from worker {thing.dst}"
    text = str(thing)
    return text if text else "an event"
