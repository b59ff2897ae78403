"""What tasks in virtual time are, and what they wait on: tasks, timers, locks, events.

All of them are made by :class:`squall.sim.world.scheduler.SimRuntime`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from greenlet import greenlet

from squall.real.runtime import NO_CONTEXT, Event, Lock, Task, TaskOwner, Timer

if TYPE_CHECKING:
    from squall.sim.world.scheduler import SimRuntime


class SimTask(Task):
    """A greenlet, and what it waits for."""

    __slots__ = ("callbacks", "glet", "isolated", "parent", "waiting_on", "waiting_since")

    # A task is the SimPy event of its own wake-up: it is queued at most once at a time.
    _ok = True
    _value = None

    runtime: SimRuntime

    def __init__(
        self, runtime: SimRuntime, id: int, name: str, worker: TaskOwner | None, daemon: bool
    ) -> None:
        # Task.__init__, without the call.
        self.runtime = runtime
        self.id = id
        self.name = name
        self.worker = worker
        self.daemon = daemon
        self.cause = -1
        self.autograd_context_id = NO_CONTEXT
        self.pending_rrefs = None
        self.locals = {}
        self.callbacks: list[Callable[[Any], None]] | None = None
        self.glet: greenlet | None = None
        #: id of the task that started this one, or -1
        self.parent = -1
        #: what it waits for (an object to print), or None while it runs or is ready
        self.waiting_on: object = None
        self.waiting_since = 0.0
        #: state of the isolation, kept while the task is switched out
        self.isolated: Any = None


class SimTimer(Timer):
    __slots__ = ("_runtime", "callbacks", "fn", "held", "worker")

    _ok = True
    _value = None

    def __init__(self, runtime: SimRuntime, fn: Callable[[], object]) -> None:
        self._runtime = runtime
        self.fn: Callable[[], object] | None = fn
        #: whose timer it is: it does not fire while that worker does not run
        self.worker = runtime.running.worker
        #: it has come due and waits for its worker
        self.held = False
        self.callbacks: list[Callable[[Any], None]] | None = _FIRE

    def fire(self) -> None:
        fn = self.fn
        if fn is not None:
            runtime = self._runtime
            runtime.live -= 1
            if runtime.processes is not None and runtime.processes.hold_timer(self):
                return
            self.fn = None
            fn()

    def cancel(self) -> None:
        if self.fn is not None:
            self.fn = None
            if not self.held:
                self._runtime.timer_cancelled()


# One list serves all timers, and refers to none of them.
_FIRE: list[Callable[[Any], None]] = [SimTimer.fire]


class SimLock(Lock):
    __slots__ = ("_owner", "_runtime", "_waiters", "what")

    def __init__(self, runtime: SimRuntime, what: object) -> None:
        self._runtime = runtime
        self._owner: SimTask | None = None
        self._waiters: deque[SimTask] = deque()
        self.what = what

    @property
    def owner(self) -> SimTask | None:
        """The task that holds it."""
        return self._owner

    def acquire(self, timeout: float | None = None) -> bool:
        runtime = self._runtime
        if runtime.preemptive:
            runtime.checkpoint()
        if self._owner is None:
            self._owner = runtime.running
            return True
        return self._wait(timeout)

    def _wait(self, timeout: float | None) -> bool:
        runtime = self._runtime
        task = runtime.running
        if task is runtime.hub_task:
            raise RuntimeError(f"a scheduler callback would block on {self!r}")
        self._waiters.append(task)
        woken = runtime.block(task, self, self._waiters, timeout)
        return woken  # the releaser made this task the owner

    def release(self) -> None:
        if self._waiters:
            self._owner = task = self._waiters.popleft()
            self._runtime.ready(task)
        else:
            self._owner = None

    # With-blocks are the hot path of locks: the uncontended cases, without further calls.

    def __enter__(self) -> None:
        runtime = self._runtime
        if runtime.preemptive:
            runtime.checkpoint()
        if self._owner is None:
            self._owner = runtime.running
        else:
            self._wait(None)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._waiters:
            self.release()
        else:
            self._owner = None

    def __repr__(self) -> str:
        return f"<lock {self.what} held by {self._owner}>"


class SimEvent(Event):
    __slots__ = ("_runtime", "_set", "_waiters", "what")

    def __init__(self, runtime: SimRuntime, what: object) -> None:
        self._runtime = runtime
        self._set = False
        self._waiters: deque[SimTask] = deque()
        self.what = what

    def set(self) -> None:
        if not self._set:
            self._set = True
            waiters = self._waiters
            while waiters:
                self._runtime.ready(waiters.popleft())

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        runtime = self._runtime
        if self._set:
            if runtime.preemptive:
                runtime.checkpoint()
            return True
        task = runtime.running
        if task is runtime.hub_task:
            raise RuntimeError(f"a scheduler callback would block on {self!r}")
        self._waiters.append(task)
        return runtime.block(task, self, self._waiters, timeout)

    def __repr__(self) -> str:
        return str(self.what) if self.what != "" else "<event>"
