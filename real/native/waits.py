"""Inside a worker process: waits with a time limit, in virtual time.

``threading.Condition`` waits on a lock that it makes for each wait, and with it all that is built on
it: events, queues, barriers, and what ``torch.distributed.rpc`` waits for in Python. Here that lock
asks the coordinator for the end of its time, and is woken before if somebody releases it.
"""

from __future__ import annotations

import _thread
import pickle
import queue
import threading
from collections.abc import Callable
from typing import Any


class Waiter:
    """A lock whose time limits are virtual."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._lock = _thread.allocate_lock()
        self._question: int | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As ``threading.Lock.acquire``; ``timeout`` in seconds of virtual time."""
        if not blocking or timeout < 0:
            return self._lock.acquire(blocking)
        question = self._question = self._link.begin("P", pickle.dumps(("sleep", timeout)))
        if self._lock.acquire(False):  # released before there was somebody to wake
            self._link.wake(question)
            self._link.end(question)
            return True
        self._link.end(question)
        self._question = None
        return self._lock.acquire(False)

    def release(self) -> None:
        self._lock.release()
        question = self._question
        if question is not None:
            self._link.wake(question)


def install(link: Any, now: Callable[[], float]) -> None:
    """Let all further waits with a time limit be virtual. ``now``: seconds of virtual time."""
    module: Any = threading
    module._allocate_lock = lambda: Waiter(link)
    # What is left of a limit is reckoned by these.
    module._time = now
    vars(queue)["time"] = now
