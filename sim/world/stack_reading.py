"""What threads wait for, read from their stacks: the same for simulated threads and for those of a real process.

Whoever knows frames of its own registers a reader (:func:`reads`); those of the standard library are known here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import FrameType
from typing import Any, NamedTuple

from squall.model.events.names import code
from squall.model.events.waiting import Waiting
from squall.real.native.waits import Waiter
from squall.real.rpc.called import name_of_call
from squall.sim.world.expressions import expression_of, held_by, made_at, value_of
from squall.sim.world.places import WRAPPERS, file_name, frames_of, is_library, place_in, place_of
from squall.sim.world.thread_origins import Started
from squall.sim.world.values import variables


class Rank(NamedTuple):
    """The worker of that number."""

    number: int


class Reading(NamedTuple):
    """What a thread waits for. ``lack``: why that does not come, if nobody is known who could end the wait;
    ``ends``: who could: threads of the same process by their ids, and workers: themselves, by their names, or by
    their numbers (:class:`Rank`). ``call``: the function of a call that it waits for, and to whom that goes."""

    kind: str
    what: str
    lack: str = ""
    ends: tuple[Any, ...] = ()
    call: tuple[str, str] | None = None


@dataclass(eq=False)
class Thread:
    """One that waits: ``frames`` are its stack, the innermost first."""

    id: Hashable
    frames: Sequence[FrameType]
    #: others of the same process, itself among them, by their ids
    others: Mapping[Hashable, Thread] = field(default_factory=dict)
    started: Started | None = None
    #: the lock that it waits for, once it has been asked (:meth:`lock`)
    awaits: Any = None

    @cached_property
    def user(self) -> int | None:
        """Which of the frames is the innermost of the user's."""
        library = [is_library(frame.f_code.co_filename) for frame in self.frames]
        return library.index(False) if False in library else None

    @cached_property
    def expression(self) -> ast.expr | None:
        """What it evaluates in that frame."""
        return None if self.user is None else expression_of(self.frames[self.user])

    @cached_property
    def place(self) -> str:
        """``deadlock.py:18``, or nothing."""
        if self.user is not None:
            return place_in(self.frames[self.user])
        return "" if self.started is None else self.started.place

    @cached_property
    def line(self) -> str:
        told = place_of(self.frames[0] if self.frames else None)
        return told or ("" if self.started is None else self.started.line)

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """Those of the user's function that it is in, by name."""
        return () if self.user is None else tuple(variables(self.frames[self.user]).items())

    @cached_property
    def held(self) -> list[tuple[int, str, str]]:
        """What its functions hold: ids, how it is called, and where it was taken."""
        found = []
        for frame in self.frames:
            if not is_library(frame.f_code.co_filename):
                file = file_name(frame.f_code.co_filename)
                for thing, name, line in held_by(frame):
                    found.append((id(innermost_lock(thing)), name, f"{file}:{line}"))
        return found

    @cached_property
    def serves(self) -> str:
        """The function of the call that it runs for another worker, or nothing."""
        for frame in reversed(self.frames):
            function = _SERVES.get(_key(frame), "")
            if function:
                udf = frame.f_locals.get(function)
                name = str(getattr(getattr(udf, "func", None), "__qualname__", ""))
                return name_of_call(name, getattr(udf, "args", ()))
        return ""

    @cached_property
    def computes(self) -> Any:
        """The future of ``concurrent.futures`` whose function it runs; None if it runs none."""
        item = next((f for f in self.frames if _key(f) == _WORK_ITEM), None)
        return None if item is None else getattr(item.f_locals.get("self"), "future", None)

    @cached_property
    def works_for_it(self) -> Thread | None:
        """The one of its process that does what it waits for; None if there is none."""
        for frame in self.frames:
            if (whose := _WORKS.get(_key(frame))) is not None:
                return self.others.get(whose(frame))
        return None

    @property
    def is_idle(self) -> bool:
        """Whether it belongs to a pool and has nothing to do, or what it waits for is told of whom it works for."""
        is_of_pool = any(_key(frame) == _POOL_THREAD for frame in self.frames)
        is_told = any(each.works_for_it is self for each in self.others.values())
        return is_told or (is_of_pool and self.computes is None)

    def named(self) -> str:
        """What it waits on, as its author calls it: ``jobs`` of ``jobs.get()``."""
        expression = self.expression
        if isinstance(expression, ast.Call):
            expression = expression.func
            if isinstance(expression, ast.Attribute):
                expression = expression.value
        if expression is None:
            return "" if self.started is None else self.started.named
        return code(ast.unparse(expression))

    def called(self) -> str:
        """The function of a library that the user called there; "" if there is no user's code."""
        names = [frame.f_code.co_name for frame in self.frames[: self.user or 0]]
        return next((code(name) for name in reversed(names) if name not in WRAPPERS), "")

    def reading(self) -> Reading | None:
        """None where nothing is known of what it waits for."""
        if self.works_for_it is not None:
            return self.works_for_it.reading()
        for frame in reversed(self.frames if self.user is None else self.frames[: self.user]):
            reader = _READERS.get(_key(frame))
            if reader is not None and (found := reader(self, frame)) is not None:
                return found
        return self._without_frame()

    def awaited(self) -> Any:
        """The object that the user's code waits on, where it names it; None where that is not known."""
        if self.user is None or self.expression is None:
            return None
        frame, expression = self.frames[self.user], self.expression
        if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
            if expression.func.attr not in ("acquire", "wait"):
                return None
            expression = expression.func.value
        return value_of(frame, expression)

    def _without_frame(self) -> Reading | None:
        """Where the innermost frame is the user's: it waits in what is not written in Python."""
        thing = self.awaited()
        if type(thing).__module__ == "_thread":
            return self.lock(thing)
        if type(thing).__name__ == "Future":
            return Reading("future", self.named(), "nobody completes it")
        return None

    def lock(self, thing: Any) -> Reading:
        """It waits for a lock."""
        lock, name = innermost_lock(thing), self.named() or "a lock"
        self.awaits = thing
        if not isinstance(lock, Waiter):
            holders = [key for key, each in self.others.items() if each.took(lock)]
            return Reading("lock", name, "nobody releases it", tuple(holders))
        holder = lock.holder()
        if holder not in self.others:
            return Reading("lock", name, "who has taken it has ended and not released it")
        return Reading("lock", name, "", (holder,))

    def took(self, thing: Any) -> str:
        """Where this thread took a lock that it holds; "" where that is not known."""
        key = id(innermost_lock(thing))
        return next((place for each, _, place in self.held if each == key), "")

    def made(self) -> str:
        """Where what it waits on was made, or nothing."""
        if self.user is None:
            return ""
        frame, expression = self.frames[self.user], self.expression
        if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
            expression = expression.func.value
        line = made_at(frame, expression)
        return "" if line is None else f"{file_name(frame.f_code.co_filename)}:{line}"


def ended_by(
    waiting: Waiting, reading: Reading, find: Callable[[Any], int | str | None]
) -> Waiting:
    """A wait with what its stack says. ``find``: the task that one of :attr:`Reading.ends` is, or the name of who has
    ended and cannot end it any more; None: neither."""
    ends: list[int] = []
    lacks, kind = [reading.lack] if reading.lack else [], reading.kind
    for end in map(find, reading.ends):
        if isinstance(end, int):
            ends.append(end)
        elif end is not None:
            lacks.append(f"{end} has ended")
            kind = "gone"
    lack = "" if ends else " and ".join(lacks)
    full = "the pool" if kind == "pool" else ""
    return waiting._replace(what=reading.what, kind=kind, ends=tuple(ends), lack=lack, full=full)


def threads_of(
    stacks: Mapping[Any, FrameType | None], begun: Mapping[Any, Started | None] | None = None
) -> dict[Any, Thread]:
    """The threads of one process, by their ids, from the innermost frame of each; ``begun``: where they were started,
    if that is known."""
    threads: dict[Any, Thread] = {}
    for key, frame in stacks.items():
        threads[key] = Thread(key, frames_of(frame), threads, (begun or {}).get(key))
    return threads


def innermost_lock(thing: Any) -> Any:
    """The lock that a condition or a lock that is written in Python consists of."""
    if isinstance(thing, Waiter):
        return thing
    own = getattr(thing, "__dict__", {})
    for name in ("_lock", "_block", "_semlock"):
        if name in own:
            return innermost_lock(own[name])
    return thing


_Key = tuple[str, str]
Reader = Callable[[Thread, FrameType], Reading | None]
_READERS: dict[_Key, Reader] = {}
#: functions that run a call, and the variable in which they have it
_SERVES = {
    ("squall.real.rpc.serialization", "run_function"): "udf",
    ("torch.distributed.rpc.internal", "_run_function"): "python_udf",
}
_WORK_ITEM = ("concurrent.futures.thread", "_WorkItem.run")
_POOL_THREAD = ("concurrent.futures.thread", "_worker")
#: functions that wait for what another thread of the process does, and which one, by its id
_WORKS: dict[_Key, Callable[[FrameType], Hashable]] = {}


def _key(frame: FrameType) -> _Key:
    return str(frame.f_globals.get("__name__", "")), frame.f_code.co_qualname


def reads(module: str, *functions: str) -> Callable[[Reader], Reader]:
    """Registers what knows frames of these functions."""

    def register(reader: Reader) -> Reader:
        _READERS.update({(module, function): reader for function in functions})
        return reader

    return register


def works(module: str, function: str, whose: Callable[[FrameType], Hashable]) -> None:
    """Registers a function that waits for what a thread of the same process does: ``whose`` gives its id."""
    _WORKS[module, function] = whose


# -- the standard library ----------------------------------------------------------------------------------------------


def _simple(kind: str, what: str, lack: str, module: str, *functions: str) -> None:
    @reads(module, *functions)
    def _(thread: Thread, frame: FrameType) -> Reading | None:
        name = thread.named()
        return Reading(kind, what.format(name), lack) if name else None


_simple("event", "{} to be set", "nobody sets it", "threading", "Event.wait")
_simple("condition", "a notify of {}", "nobody notifies it", "threading",
        "Condition.wait", "Condition.wait_for")  # fmt: skip
_simple("semaphore", "{}", "nobody releases it", "threading",
        "Semaphore.acquire", "Semaphore.__enter__")  # fmt: skip
_simple("queue", "something in {}", "nobody puts anything into it", "queue",
        "Queue.get", "_PySimpleQueue.get")  # fmt: skip
_simple("queue", "room in {}", "nobody takes anything out of it", "queue", "Queue.put")
_simple("queue", "the end of the work in {}", "nobody calls task_done", "queue", "Queue.join")
_simple("pipe", "something from {}", "nobody sends it", "multiprocessing.connection",
        "_ConnectionBase.recv", "_ConnectionBase.recv_bytes")  # fmt: skip
_simple("queue", "something in {}", "nobody puts anything into it",
        "multiprocessing.queues", "Queue.get", "SimpleQueue.get")  # fmt: skip


@reads("threading", "_RLock.acquire", "_RLock.__enter__")
def _rlock(thread: Thread, frame: FrameType) -> Reading:
    return thread.lock(frame.f_locals.get("self"))


@reads("threading", "Barrier.wait")
def _barrier(thread: Thread, frame: FrameType) -> Reading:
    barrier = frame.f_locals.get("self")
    size, come = getattr(barrier, "_parties", 0), getattr(barrier, "_count", 0)
    return Reading("barrier", f"others at {thread.named()}", f"{come} of {size} have come")


@reads("threading", "Thread.join", "_DummyThread.join")
def _join(thread: Thread, frame: FrameType) -> Reading:
    joined = frame.f_locals.get("self")
    ident = getattr(joined, "ident", None)
    ends = (ident,) if ident in thread.others else ()
    return Reading(
        "thread", f"the end of thread {code(str(getattr(joined, 'name', '')))}", "", ends
    )


@reads("threading", "_shutdown")
def _all_threads(thread: Thread, frame: FrameType) -> Reading:
    """The main thread, at the end."""
    others = [each for each in thread.others if each != thread.id]
    return Reading("threads", "the end of its threads", "", tuple(others))


@reads("squall.real.future", "Future.wait")
def _future(thread: Thread, frame: FrameType) -> Reading:
    return Reading("future", thread.named(), "nobody completes it")


@reads("concurrent.futures._base", "Future.result", "Future.exception")
def _result(thread: Thread, frame: FrameType) -> Reading:
    future = frame.f_locals.get("self")
    runs = tuple(id for id, each in thread.others.items() if each.computes is future)
    name = thread.named()
    if runs:
        return Reading("result", f"the result of {name}", "", runs)
    busy = tuple(id for id, each in thread.others.items() if each.computes is not None)
    if busy and getattr(future, "_state", "") == "PENDING":
        return Reading("pool", f"the result of {name}", "", busy)
    return Reading("result", f"the result of {name}", "nobody sets it")


@reads("concurrent.futures._base", "wait", "as_completed", "Executor.map.<locals>.result_iterator")
def _results(thread: Thread, frame: FrameType) -> Reading:
    busy = tuple(id for id, each in thread.others.items() if each.computes is not None)
    return Reading("result", f"the results of {thread.named()}", "nobody sets them", busy)


@reads("concurrent.futures.thread", "ThreadPoolExecutor.shutdown")
def _pool_ends(thread: Thread, frame: FrameType) -> Reading:
    busy = tuple(id for id, each in thread.others.items() if each.computes is not None)
    return Reading("threads", "the end of its pool of threads", "", busy)


# -- PyTorch's, where it is not squall's --------------------------------------------------------------------------------


@reads("torch.futures", "Future.wait")
def _torch_future(thread: Thread, frame: FrameType) -> Reading | None:
    return _future(thread, frame)


@reads("squall.real.native.waits", "Waiter.acquire", "Waiter.__enter__")
def _lock(thread: Thread, frame: FrameType) -> Reading:
    return thread.lock(frame.f_locals.get("self"))


@reads("torch.distributed.rpc.api", "rpc_sync")
def _rpc_sync(thread: Thread, frame: FrameType) -> Reading:
    function = getattr(frame.f_locals.get("func"), "__qualname__", "")
    function = name_of_call(function, frame.f_locals.get("args"))
    to = frame.f_locals.get("to")
    name = str(getattr(to, "name", to))
    return Reading("call", f"{code(function)} on {name}", call=(function, name))


@reads("torch.distributed.rpc.api", "_all_gather")
def _torch_meeting(thread: Thread, frame: FrameType) -> Reading | None:
    local, called = frame.f_locals, thread.called() or code("shutdown")
    if local.get("leader_name") != local.get("self_name"):
        return Reading("meeting", f"all workers to call {called}", ends=(local.get("leader_name"),))
    states = local.get("states")
    come = getattr(states, "gathered_objects", {})
    missing = [name for name in sorted(local.get("worker_names") or ()) if name not in come]
    return Reading("meeting", f"{' and '.join(missing)} to call {called}", ends=tuple(missing))


# -- squall's own ------------------------------------------------------------------------------------------------------


@reads("squall.real.rpc.all_gather", "_gather")
def _meeting(thread: Thread, frame: FrameType) -> Reading:
    """All workers are to come to a call: the leader knows who has not."""
    local, called = frame.f_locals, thread.called() or code("shutdown")
    if local["leader_name"] != local["self_name"]:
        return Reading("meeting", f"all workers to call {called}", "", (local["leader_name"],))
    missing = [name for name in local["names"] if name not in local["gather"].gathered_objects]
    what = f"{' and '.join(missing)} to call {called}" if missing else "the others to hear of it"
    return Reading("meeting", what, "", tuple(missing))
