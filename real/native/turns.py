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
    futures = _native.Future
    several = _Several()
    futures.wait = _taking_turns(futures.wait, ask, waits, several)
    for name in ("add_done_callback", "then"):
        setattr(futures, name, _calling_back(getattr(futures, name), several))


class _Several:
    """Whether what is done for a future may wake several threads, one of which calls back."""

    yes = False


def _taking_turns(
    wait: Any, ask: Callable[[], object], waits: Callable[[object], object], several: _Several
) -> Any:
    """``Future.wait``: a reply may come to several who wait, or be set by a thread that goes on, with callbacks
    for instance.

    While there are no callbacks, and no other thread of Python's to be woken by the same, nobody is asked.
    """
    waiting: set[int] = set()

    @functools.wraps(wait)
    def waited(self: Any) -> Any:
        waits(self)
        if self.done():
            return wait(self)
        me = threading.get_ident()
        several.yes = several.yes or bool(waiting) or threading.active_count() > 1
        waiting.add(me)
        try:
            return wait(self)
        finally:
            waiting.discard(me)
            if several.yes:
                ask()

    return waited


def _calling_back(add: Any, several: _Several) -> Any:
    @functools.wraps(add)
    def added(self: Any, callback: Any) -> Any:
        several.yes = True
        return add(self, callback)

    return added
