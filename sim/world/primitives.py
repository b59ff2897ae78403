"""Tasks in virtual time, and what they wait on: timers, locks, events.

All of them are made by :class:`squall.sim.world.scheduler.SimRuntime`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from greenlet import greenlet

from squall.real.runtime import NO_CONTEXT, Event, Lock, Runtime, Task, TaskOwner, Timer
from squall.sim.world.virtual_time import Due, VirtualTime

if TYPE_CHECKING:
    from squall.sim.world.local_passes import Apart


class Scheduler(Runtime):
    """What tasks, locks and events ask of the runtime that runs them."""

    seed: int
    env: VirtualTime
    #: the task that runs now
    running: SimTask
    #: stands for whoever steps the simulation, so that there always is a running task
    hub_task: SimTask
    #: every task that has not ended, in order of creation
    tasks: dict[SimTask, None]
    #: whether :meth:`checkpoint` may let another task in
    preemptive: bool
    #: draws for how long tasks wait for a processor; None: never
    waits_for_cpu: Random | None
    #: by task, if it is queued: how much later that is for it
    late_by: dict[int, float]

    @abstractmethod
    def checkpoint(self) -> None:
        """A point at which another task may run, as it may anywhere between threads."""

    @abstractmethod
    def ready(self, task: SimTask) -> None:
        """Let a waiting task go on, at this instant."""

    @abstractmethod
    def block(
        self, task: SimTask, on: object, waiters: deque[SimTask], timeout: float | None
    ) -> bool:
        """Switch away until somebody takes ``task`` out of ``waiters`` and makes it ready.

        False if ``timeout`` seconds passed first. ``on``: what it waits for.
        """

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Let the run end with ``error`` after what happens just now."""


class SimTask(Task, Due):
    """A greenlet, and what it waits for."""

    __slots__ = ("apart", "callbacks", "glet", "isolated", "parent", "waiting_on", "waiting_since")

    # A task is the event of its own wake-up: it is queued at most once at a time.

    runtime: Scheduler

    def __init__(
        self, runtime: Scheduler, id: int, name: str, worker: TaskOwner | None, daemon: bool
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
        self.glet: greenlet | None = None
        #: the thread that runs it now, if that is another one than its greenlet's
        self.apart: Apart | None = None
        #: id of the task that started this one, or -1
        self.parent = -1
        #: what it waits for (an object to print), or None while it runs or is ready
        self.waiting_on: object = None
        self.waiting_since = 0.0
        #: state of the isolation, kept while the task is switched out
        self.isolated: Any = None

    @property
    def serves_a_message(self) -> bool:
        """Whether the agent began it for a message; no task of a program did."""
        return self.parent < 0 <= self.cause


class SimTimer(Timer, Due):
    __slots__ = ("_env", "callbacks", "fn", "held", "worker")

    def __init__(
        self, env: VirtualTime, fn: Callable[[], object], worker: TaskOwner | None
    ) -> None:
        self._env = env
        #: what it calls; None once it has, or has been cancelled
        self.fn: Callable[[], object] | None = fn
        #: whose timer it is: it does not fire while that worker does not run
        self.worker = worker
        #: it has come due and waits for its worker
        self.held = False

    @property
    def cancelled(self) -> bool:
        return self.fn is None

    def cancel(self) -> None:
        if self.fn is not None:
            self.fn = None
            if not self.held:
                self._env.cancel()


class SimLock(Lock):
    __slots__ = ("_owner", "_runtime", "_waiters", "what")

    def __init__(self, runtime: Scheduler, what: object) -> None:
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

    def __exit__(self, *_: object) -> None:
        if self._waiters:
            self.release()
        else:
            self._owner = None

    def __repr__(self) -> str:
        return f"<lock {self.what} held by {self._owner}>"


class SimEvent(Event):
    __slots__ = ("_runtime", "_set", "_waiters", "what")

    def __init__(self, runtime: Scheduler, what: object) -> None:
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
