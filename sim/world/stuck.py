"""Why nothing happens any more: who waits for what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from squall.model.events.waiting import Waiting
from squall.real.future import Future
from squall.real.rpc.message import Message
from squall.sim.scripts.compat.threads import ThreadLock
from squall.sim.world.primitives import SimEvent, SimLock, SimTask
from squall.sim.world.scheduler import SimRuntime


class Deadlock(RuntimeError):  # noqa: N818 - it is what happened, not a mishap of ours
    """No event is left and tasks still wait. ``waits`` has a line for each, ``waiting`` the same
    for the wait-for graph."""

    def __init__(self, waits: list[str], waiting: Sequence[Waiting] = ()) -> None:
        super().__init__("nothing can happen any more and somebody waits:\n" + "\n".join(waits))
        self.waits = waits
        self.waiting = list(waiting)


def explain(runtime: SimRuntime, tasks: Iterable[SimTask] | None = None) -> list[str]:
    """A line for each task that waits: worker, task, what for, since when."""
    return [_line(task) for task in (tasks if tasks is not None else runtime.tasks)]


def _line(task: SimTask) -> str:
    where = task.worker.name if task.worker is not None and task.worker.name else "-"
    on = task.waiting_on
    what = on.awaited_by(task) if isinstance(on, ThreadLock) else waited_for(on)
    return f"{where}: {task.name} waits for {what} since t={task.waiting_since:.6f} s"


def waited_for(thing: object) -> str:
    """What a task waits for, in words."""
    if isinstance(thing, SimEvent):
        return waited_for(thing.what)
    if isinstance(thing, SimLock):
        return f"the lock {thing.what!s}".rstrip()
    if isinstance(thing, Future):
        return waited_for(thing.what) if thing.what != "" else "a future that nobody completed"
    if isinstance(thing, Message):
        ids = f" {thing.about}" if thing.about else ""
        return f"the reply to {thing.type.name}{ids} (id {thing.id}) from worker {thing.dst}"
    text = str(thing)
    return text if text else "an event"
