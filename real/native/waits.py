"""Inside a worker process: waits with a time limit, in virtual time.

``threading.Condition`` waits on a lock that it makes for each wait, and with it all that is built on
it: events, queues, barriers, and what ``torch.distributed.rpc`` waits for in Python. Here that lock
asks the coordinator for the end of its time, and is woken before if somebody releases it.
"""

from __future__ import annotations

import _thread
import functools
import itertools
import pickle
import queue
import threading
from collections.abc import Callable
from typing import Any, ClassVar

#: by thread: the number of what it does, a thread of the script's or a call; 0 where that has none
_doing: dict[int, int] = {}
_numbers = itertools.count(1)
#: what the main thread waits for that has a time limit, its question: what a signal wakes
of_main_thread: int | None = None


def begin(link: Any, seconds: float) -> int:
    """Ask for the end of so many seconds of virtual time: the question, to be given to :func:`end`."""
    global of_main_thread
    question: int = link.begin("P", pickle.dumps(("sleep", float(seconds))))
    if threading.current_thread() is threading.main_thread():
        of_main_thread = question
    return question


def end(link: Any, question: int) -> None:
    """Block until they are over, or somebody wakes who waits."""
    global of_main_thread
    link.end(question)
    if of_main_thread == question:
        of_main_thread = None


class Waiter:
    """A lock whose time limits are virtual. A subclass names the link to the coordinator."""

    _link: ClassVar[Any]
    _now: ClassVar[Any]
    #: called by a thread that had to wait and was woken by another one, before it goes on
    _woken: ClassVar[Any]

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        #: of those who wait with a time limit, in the order in which they came
        self._questions: list[int] = []
        #: who has taken it: the thread, and what that was doing
        self._taken = 0, 0

    def _acquired(self) -> bool:
        me = _thread.get_ident()
        self._taken = me, _doing.get(me, 0)
        return True

    def holder(self) -> int | None:
        """The thread that has taken it; None if that has ended since, or the call that it ran."""
        thread, doing = self._taken
        return thread if doing == _doing.get(thread, 0) else None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As ``threading.Lock.acquire``; ``timeout`` in seconds of virtual time."""
        if self._lock.acquire(False):
            return self._acquired()
        if not blocking:
            return False
        if timeout < 0:
            self._lock.acquire()
            self._woken()
            return self._acquired()
        end_s: float = self._now() + timeout
        left_s = float(timeout)
        while not self._woken_within(left_s):
            left_s = end_s - self._now()
            if left_s <= 0:
                return self._lock.acquire(False) and self._acquired()
        self._woken()
        return self._acquired()

    def _woken_within(self, seconds: float) -> bool:
        """Wait for a release, and whether the lock is held after it."""
        question = begin(self._link, seconds)
        self._questions.append(question)
        if self._lock.acquire(False):  # released before there was somebody to wake
            self._forget(question)
            self._link.wake(question)
            end(self._link, question)
            return True
        end(self._link, question)
        self._forget(question)
        return self._lock.acquire(False)

    def _forget(self, question: int) -> None:
        if question in self._questions:
            self._questions.remove(question)

    def release(self) -> None:
        self._lock.release()
        if self._questions:
            self._link.wake(self._questions.pop(0))

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raises TypeError, as that of a lock does."""
        return self._lock.__reduce_ex__(protocol)

    def _at_fork_reinit(self) -> None:
        self._lock = _thread.allocate_lock()
        self._questions.clear()


def numbered(function: Any) -> Any:
    """``function``, which a thread runs as something of its own: what it takes then, nobody has any more when it has
    ended."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        me = _thread.get_ident()
        before, _doing[me] = _doing.get(me, 0), next(_numbers)
        try:
            return function(*args, **kwargs)
        finally:
            _doing[me] = before

    return run


def install(link: Any, now: Callable[[], float]) -> None:
    """Let all further waits with a time limit be virtual. ``now``: seconds of virtual time."""
    module: Any = threading
    names = {"_link": link, "_now": staticmethod(now), "_woken": staticmethod(lambda: None)}
    module._allocate_lock = type("Lock", (Waiter,), names)
    # What is left of a limit is reckoned by these.
    module._time = now
    vars(queue)["time"] = now
