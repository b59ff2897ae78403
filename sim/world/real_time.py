"""A limit on the real time that something may take."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: seconds of real time between two looks, at most, and how many there are at least
_TICK_S, _TICKS = 1.0, 20
#: less of a core than this between two looks: the process waits for something
_IDLE = 0.01
#: looks between two tries to end a block that has swallowed the first
_AGAIN = 20


class TooLongError(BaseException):
    """A scenario took more real time than it may. No code under test handles it."""


@contextmanager
def time_limit(seconds: float, *, elsewhere: bool = False) -> Iterator[None]:
    """Raises :class:`TooLongError` in this block after ``seconds``. In another thread than the main
    one there is no limit.

    Time is what this process takes of a core, and what it spends waiting: not that in which it is
    suspended, or others have the machine. ``elsewhere``: its work is done by other processes, so
    all time counts in which it is not suspended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    tick_s = min(_TICK_S, seconds / _TICKS)
    used_s = time.process_time()
    spent_s = 0.0
    raised = 0

    def look(signum: int, frame: FrameType | None) -> None:
        nonlocal used_s, spent_s, raised
        now_s = time.process_time()
        worked_s, used_s = now_s - used_s, now_s
        # While a process is stopped its timer runs out once, however long that is.
        spent_s += tick_s if elsewhere or worked_s < _IDLE * tick_s else min(worked_s, tick_s)
        if spent_s >= seconds:
            raised += 1
            if raised % _AGAIN == 1:
                raise TooLongError

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, tick_s, tick_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
