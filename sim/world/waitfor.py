"""The tasks that wait in a simulation, as plain data for the wait-for graph (model/events/waiting.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from squall.model.events.waiting import Waiting
from squall.real.future import Future
from squall.real.rpc.message import Message
from squall.sim.scripts.compat.threads import ThreadLock
from squall.sim.world.primitives import SimEvent, SimLock, SimTask
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.stuck import Deadlock, explain, waited_for
from squall.sim.world.trace import TraceWriter

_PASS = re.compile(r"backward pass in context (\d+)")


def waiting(runtime: SimRuntime, tasks: Iterable[SimTask] | None = None) -> list[Waiting]:
    """What each task waits for that does, in order of creation; those that sleep left out."""
    tracer = runtime.tracer
    noted = len(tracer.trace) if isinstance(tracer, TraceWriter) else None
    return [
        _waiting(task)._replace(noted=noted)
        for task in (tasks if tasks is not None else runtime.tasks)
        if task.glet is not None and task.waiting_on is not None and task.waiting_on != "sleep"
    ]


def deadlock(runtime: SimRuntime) -> Deadlock:
    """What to raise when nothing can happen any more and somebody waits."""
    return Deadlock(explain(runtime), waiting(runtime))


def _waiting(task: SimTask) -> Waiting:
    on = task.waiting_on
    what = on.awaited_by(task) if isinstance(on, ThreadLock) else waited_for(on)
    worker = task.worker.id if task.worker is not None else -1
    plain = Waiting(task.id, task.name, worker, task.waiting_since, what)
    thing = on
    while isinstance(thing, SimEvent | Future):
        thing = thing.what
    if isinstance(thing, Message):
        return plain._replace(call=(thing.src, thing.id))
    if isinstance(on, SimLock) and on.owner is not None:
        return plain._replace(holder=on.owner.id)
    match = _PASS.fullmatch(str(thing))
    return plain if match is None else plain._replace(context=int(match[1]))
