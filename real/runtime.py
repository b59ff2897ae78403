"""The seam between the system under test and the world it runs in.

Everything in ``real/`` that waits, sleeps, starts a task, takes a lock, reads a clock or draws
a random number goes through a :class:`Runtime`. ``ThreadRuntime`` (in :mod:`squall.real.threads`)
answers with threads and real time; the simulator answers with greenlets and virtual time.

What a thread would own privately in PyTorch (the current autograd context id, the list of
RRefs seen while a message is unpickled) lives on the :class:`Task`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import random

    from squall.real.tracing import Tracer

NO_CONTEXT = -1


class TaskOwner(Protocol):
    """Whom tasks belong to, as far as a runtime has to know: a worker."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def known_as(self) -> str:
        """What people are told of it by."""

    @property
    def tracer(self) -> Tracer: ...


class Task:
    """One thread of control, and what PyTorch would keep in that thread's local storage."""

    __slots__ = (
        "__weakref__",
        "autograd_context_id",
        "cause",
        "daemon",
        "id",
        "locals",
        "name",
        "pending_rrefs",
        "runtime",
        "worker",
    )

    def __init__(
        self, runtime: Runtime, id: int, name: str, worker: TaskOwner | None, daemon: bool = True
    ) -> None:
        self.runtime = runtime
        self.id = id
        self.name = name
        self.worker: TaskOwner | None = worker
        self.daemon = daemon
        #: number of the message whose delivery started this task, or -1
        self.cause = -1
        #: the autograd context that calls made by this task record into (-1: none)
        self.autograd_context_id = NO_CONTEXT
        #: confirmations of the RRefs unpickled so far; None while nothing records them
        self.pending_rrefs: list[Any] | None = None
        #: anything else that is private to a thread, by key
        self.locals: dict[Any, Any] = {}

    def __repr__(self) -> str:
        where = f" on {self.worker.name}" if self.worker is not None else ""
        return f"<task {self.id} {self.name}{where}>"


class Lock(ABC):
    """A mutual exclusion lock; not reentrant."""

    @abstractmethod
    def acquire(self, timeout: float | None = None) -> bool:
        """Take the lock; False if ``timeout`` seconds passed first (None: no limit)."""

    @abstractmethod
    def release(self) -> None: ...

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release()


class Event(ABC):
    """A flag that tasks wait for. ``what`` says, in a report of a hang, what is waited for."""

    what: object

    @abstractmethod
    def set(self) -> None: ...

    @abstractmethod
    def is_set(self) -> bool: ...

    @abstractmethod
    def wait(self, timeout: float | None = None) -> bool:
        """Block until set; False if ``timeout`` seconds passed first (None: no limit)."""


class Timer(ABC):
    @abstractmethod
    def cancel(self) -> None:
        """Forget the timer. No effect once it has fired."""


class Runtime(ABC):
    """What code under test may ask of the world."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since the runtime started."""

    @abstractmethod
    def sleep(self, seconds: float) -> None: ...

    @abstractmethod
    def spawn(
        self,
        fn: Callable[..., object],
        *args: Any,
        name: str,
        worker: TaskOwner | None = None,
        daemon: bool = True,
        cause: int | None = None,
    ) -> Task:
        """Run ``fn(*args)`` as a task of its own.

        ``worker`` None means the worker of the calling task, ``cause`` None what caused that. A daemon task that still waits
        when nothing else can happen is no deadlock.
        """

    @abstractmethod
    def lock(self, what: object = "") -> Lock: ...

    @abstractmethod
    def event(self, what: object = "") -> Event: ...

    @abstractmethod
    def call_later(self, delay_s: float, fn: Callable[[], object]) -> Timer:
        """Call ``fn`` once, ``delay_s`` seconds from now. ``fn`` must not block."""

    @abstractmethod
    def random(self, *name: object) -> random.Random:
        """The random stream of that name: the same name gives the same draws."""

    def poll(self) -> None:  # noqa: B027 - a hook, not a duty
        """The running task looked whether something has happened, and it has not.

        Where tasks take turns, one that looks in a loop must let the others go on; threads do.
        """

    def woke_others(self) -> None:  # noqa: B027 - a hook, not a duty
        """The running task has woken others, and has more to do: they may be quicker."""

    def condition(self, lock: Lock, what: object = "") -> Condition:
        return Condition(self, lock, what)


class Condition:
    """A condition variable over a runtime's lock and events. The lock must be held."""

    def __init__(self, runtime: Runtime, lock: Lock, what: object = "") -> None:
        self._runtime = runtime
        self._lock = lock
        self._what = what
        self._waiters: deque[Event] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait for a notification, take the lock again.

        Returns False if ``timeout`` seconds passed first.
        """
        ticket = self._runtime.event(self._what)
        self._waiters.append(ticket)
        self._lock.release()
        try:
            woken = ticket.wait(timeout)
        finally:
            self._lock.acquire()
            if not ticket.is_set() and ticket in self._waiters:
                self._waiters.remove(ticket)
        return woken

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until ``predicate()`` holds; False if ``timeout`` seconds passed first."""
        deadline = None if timeout is None else self._runtime.now() + timeout
        while not predicate():
            left = None if deadline is None else deadline - self._runtime.now()
            if left is not None and left <= 0:
                return False
            if not self.wait(left):
                # Not once more for what is left: rounded, that may be too little to move the clock.
                return predicate()
        return True

    def notify(self) -> None:
        if self._waiters:
            self._waiters.popleft().set()

    def notify_all(self) -> None:
        while self._waiters:
            self._waiters.popleft().set()


#: the running task; for runtimes, everybody else asks :func:`current_task`
current_task_variable: ContextVar[Task] = ContextVar("current_task")


def current_task() -> Task:
    """The running task.

    Raises RuntimeError outside any task (use :func:`run_as` to stand in for one).
    """
    try:
        return current_task_variable.get()
    except LookupError:
        raise RuntimeError("this code runs outside every task of a runtime") from None


def current_task_or_none() -> Task | None:
    return current_task_variable.get(None)


def enter_task(task: Task) -> None:
    """Make ``task`` the current one for the rest of this thread or greenlet."""
    current_task_variable.set(task)


@contextmanager
def run_as(task: Task) -> Iterator[Task]:
    """Let the calling thread stand in for ``task``: for tests, notebooks and main programs."""
    token = current_task_variable.set(task)
    try:
        yield task
    finally:
        current_task_variable.reset(token)
