"""Inside a worker process: threads of a script that one event wakes go on one after the other.

The coordinator gives a process one thing to do at a time, but that may wake several threads: a barrier
that is full, a lock whose owner goes on, a future for which two wait. Which of them the interpreter
runs first is chance, and so would be the ids that they draw. So whoever was woken by another thread
asks the coordinator before it goes on, which answers the thread with the lowest number first, and the
next one when that is blocked again.
"""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable
from typing import Any

import torch

_native: Any = torch._C


def install(ask: Callable[[], object], waits: Callable[[object], object]) -> None:
    """For everything by which threads wait for one another that is made from now on.

    ``ask`` blocks until its thread may go on; ``waits`` is told of each future that is waited for. To be called after ``waits.install``.
    """
    module: Any = threading
    module._allocate_lock._woken = staticmethod(ask)
    module.Lock = module._allocate_lock
    module._CRLock = None  # so that RLock() makes one on such a lock
    vars(queue)["SimpleQueue"] = vars(queue)["_PySimpleQueue"]
    _native.Future.wait = _taking_turns(_native.Future.wait, ask, waits)


def _taking_turns(wait: Any, ask: Callable[[], object], waits: Callable[[object], object]) -> Any:
    """``Future.wait``: a reply may come to several who wait, or be set by a thread that goes on.

    While no other thread of Python's is there to be woken by the same, nobody is asked.
    """
    waiting: set[int] = set()
    several = False

    @functools.wraps(wait)
    def waited(self: Any) -> Any:
        nonlocal several
        waits(self)
        if self.done():
            return wait(self)
        me = threading.get_ident()
        several = several or bool(waiting) or threading.active_count() > 1
        waiting.add(me)
        try:
            return wait(self)
        finally:
            waiting.discard(me)
            if several:
                ask()

    return waited
