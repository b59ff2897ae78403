"""Who waits for what, when nothing can happen any more: in words, and as plain data."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

from squall.model.events.hang import hang_of
from squall.model.events.names import Role, request_named, task_named
from squall.model.events.run_parts import Stall
from squall.model.events.waiting import Waiting, line_of, wait_graph
from squall.real import tracing
from squall.real.future import Future
from squall.real.rpc.called import function_of
from squall.real.rpc.message import Message
from squall.real.runtime import Task, TaskOwner
from squall.sim.world.primitives import Scheduler, SimEvent, SimTask
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.stack_reading import Rank, Reading, Thread, ended_by, threads_of
from squall.sim.world.thread_origins import Started
from squall.sim.world.trace import TraceWriter

_PASS = re.compile(r"backward pass in context (\d+)")


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
    """A line for each task that waits: who, what for, since when, and where."""
    return [line_of(each) for each in _Stacks(runtime).waits(tasks)]


def waiting(runtime: SimRuntime) -> list[Waiting]:
    """What each task waits for that does, in order of creation; those that sleep left out."""
    tracer = runtime.tracer
    noted = len(tracer.trace) if isinstance(tracer, TraceWriter) else None
    chosen = [
        task
        for task in runtime.tasks
        if task.glet is not None and task.waiting_on is not None and task.waiting_on != "sleep"
    ]
    return [each._replace(noted=noted) for each in _Stacks(runtime).waits(chosen)]


def stalled(runtime: SimRuntime) -> Stall:
    """Why what the running task has waited for has not come in time."""
    running = runtime.running
    tasks = [task for task in runtime.tasks if task is running or task.waiting_on is not None]
    waits = list(_Stacks(runtime).waits(tasks))
    tracer = runtime.tracer
    records = tracer.trace.records if isinstance(tracer, TraceWriter) else []
    hang = hang_of(wait_graph(records, waits))
    assert hang is not None, "the running task has waited"
    return Stall("deadlock" if hang.cycle else "error", hang.lines)


class _Stacks:
    """The stacks of all tasks, by the worker that they belong to."""

    def __init__(self, runtime: Scheduler) -> None:
        self._tasks = list(runtime.tasks)
        self._tracer = getattr(runtime, "tracer", None)
        self._workers: dict[int, TaskOwner] = {}
        self._threads: dict[Task, Thread] = {}
        #: of each worker, the task that runs its program
        self._mains: dict[TaskOwner, SimTask] = {}
        by_worker: dict[TaskOwner | None, list[SimTask]] = {}
        for task in self._tasks:
            by_worker.setdefault(task.worker, []).append(task)
        for worker, tasks in by_worker.items():
            begun = {task.id: task.locals.get(Started) for task in tasks}
            threads = threads_of({task.id: frame_of(task) for task in tasks}, begun)
            self._threads |= {task: threads[task.id] for task in tasks}
            if worker is not None:
                self._workers[worker.id] = worker
                mains = [task for task in tasks if not task.serves_a_message]
                self._mains.update({worker: mains[0]} if mains else {})

    def waits(self, tasks: Iterable[SimTask] | None) -> Iterator[Waiting]:
        chosen = self._tasks if tasks is None else list(tasks)
        busy = [task for task in chosen if not self._threads[task].is_idle]
        return map(self._waiting, busy or chosen)

    def _name(self, task: SimTask) -> tuple[Role, str]:
        worker = "" if task.worker is None else task.worker.known_as
        role: Role = "request" if task.serves_a_message else "thread"
        if task.worker is None or self._mains.get(task.worker) is task or task.name == "main":
            role = "main"
        return role, task_named(role, worker, task.name, self._threads[task].serves)

    def _waiting(self, task: SimTask) -> Waiting:
        thread, on = self._threads[task], task.waiting_on
        role, name = self._name(task)
        worker = task.worker.id if task.worker is not None else -1
        plain = Waiting(
            task.id,
            name,
            worker,
            task.waiting_since,
            role=role,
            place=thread.place,
            line=thread.line,
            made=thread.made(),
            variables=thread.variables,
        )
        reading = thread.reading()
        is_lock = reading is None or reading.kind == "lock"
        owner = getattr(on, "_owner", None)  # of a lock
        if owner is not None and (owner is not task or is_lock):
            return self._for_lock(plain, reading, thread.named(), on, owner)
        thing = on
        while isinstance(thing, SimEvent | Future):
            thing = thing.what
        if isinstance(thing, Message) and (
            reading is None or reading.kind in ("future", "meeting")
        ):
            to = self._workers.get(thing.dst)
            where = f"worker {thing.dst}" if to is None else to.known_as
            what = f"{request_named(thing.type.name, function_of(thing))} on {where}"
            if reading is not None and reading.kind == "meeting":
                what = f"{where} to hear of {thread.called() or 'it'}"
            return plain._replace(what=what, kind="call", call=(thing.src, thing.id))
        if reading is not None and reading.kind != "future":
            return ended_by(plain, reading, self._end)
        if match := _PASS.fullmatch(str(thing)):
            return plain._replace(what="the backward pass", kind="pass", context=int(match[1]))
        if reading is not None and not str(thing):
            return ended_by(plain, reading, self._end)
        return plain._replace(what=_told(on, thing), kind="thing")

    def _for_lock(
        self, plain: Waiting, reading: Reading | None, named: str, lock: object, owner: SimTask
    ) -> Waiting:
        """It waits for what another task has."""
        if reading is not None and reading.kind != "lock":
            ends = reading.ends or (owner.id,)
            return plain._replace(what=reading.what, kind=reading.kind, ends=ends)
        what = named or str(getattr(lock, "what", "")) or "a lock"
        if owner not in self._threads:
            lack = "who has taken it has ended and not released it"
            ends = tuple(each.id for each in self._askers(owner))
            return plain._replace(what=what, kind="lock", lack=lack, ends=ends)
        took = self._threads[owner].took(lock)
        return plain._replace(what=what, kind="lock", ends=(owner.id,), took=took)

    def _askers(self, owner: SimTask) -> list[SimTask]:
        """The task that called what has run in one that has ended: what that has kept is kept for it."""
        if not owner.serves_a_message or not isinstance(self._tracer, TraceWriter):
            return []
        sent = self._tracer.trace.of(tracing.MESSAGE_SENT)
        by = {event.task for event in sent if event["number"] == owner.cause}
        return [task for task in self._tasks if task.id in by]

    def _worker(self, end: Any) -> TaskOwner | None:
        if isinstance(end, Rank):
            return self._workers.get(end.number)
        if isinstance(end, str):
            return next((each for each in self._workers.values() if each.name == end), None)
        worker: TaskOwner = end
        return worker

    def _end(self, end: Any) -> int | str:
        """The task that could end a wait, or who has ended."""
        if isinstance(end, int):
            return end
        worker = self._worker(end)
        main = None if worker is None else self._mains.get(worker)
        if main is not None:
            return main.id
        if worker is not None:
            return worker.known_as
        return f"rank {end.number}" if isinstance(end, Rank) else str(end)


def frame_of(task: SimTask) -> FrameType | None:
    """The innermost of its stack."""
    if task.runtime.running is task:
        return sys._getframe()
    return None if task.glet is None else task.glet.gr_frame


def _told(on: object, thing: object) -> str:
    """What is waited for that only says itself what it is."""
    if on == "sleep":
        return "the end of its sleep"
    if str(thing):
        return str(thing)
    return "a future that nobody completes" if isinstance(on, SimEvent) else "an event"
