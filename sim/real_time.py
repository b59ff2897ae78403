"""A limit on the real time that something may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooLongError(BaseException):
    """A scenario took more real time than it may. No code under test handles it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises :class:`TooLongError` in this block after ``seconds``. For the main thread."""

    def too_long(signum: int, frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
