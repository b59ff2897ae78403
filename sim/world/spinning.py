"""A limit of real time for code that computes on and on and never waits for anything.

Virtual time stands still meanwhile, and nothing else can happen: such a run would never end. Imports
no torch.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from squall.real.own_files import OWN_FILES

#: seconds that may be computed without a wait, where nobody says another number
DEFAULT_LIMIT_S = 120.0
#: how often it is looked at, in seconds
_LOOK_S = 0.5
#: rounds of a loop in which what was raised from another thread comes for certain
_INSTRUCTIONS = 100
_limit_s = DEFAULT_LIMIT_S


class SpinningError(BaseException):
    """Raised in code that has computed for longer than the limit: no Exception, as code that goes on
    whatever happens is meant. ``where``: a printable stack, without squall's own frames."""

    def __init__(self, limit_s: float = 0.0, where: str = "") -> None:
        super().__init__(said(limit_s))
        self.where = where


def said(limit_s: float) -> str:
    """What has happened, in words."""
    return f"it computed for {limit_s:g} s without waiting for anything (--wall-limit)"


def limit_s() -> float:
    """The limit of runs that begin now; infinite if there is none."""
    return _limit_s


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Runs that begin in this block may compute for so long without a wait; 0 is for ever."""
    global _limit_s
    before, _limit_s = _limit_s, seconds or float("inf")
    try:
        yield
    finally:
        _limit_s = before


@contextmanager
def ended(progress: Callable[[], object], end: Callable[[SpinningError], object]) -> Iterator[None]:
    """In this block, raise :class:`SpinningError` in the thread that has entered it, and tell ``end``
    before, when it computes for longer than the limit while ``progress()`` stays what it is."""
    limit, ident, over = _limit_s, threading.get_ident(), threading.Event()

    def watch() -> None:
        last, since_s = progress(), time.process_time()
        while not over.wait(_LOOK_S):
            now, now_s = progress(), time.process_time()
            if now != last:
                last, since_s = now, now_s
            elif now_s - since_s > limit:
                end(SpinningError(limit, _stack(sys._current_frames().get(ident))))
                # Again and again: it may be caught.
                _raise_in(ident, SpinningError)

    if limit == float("inf"):
        yield
        return
    watcher = threading.Thread(target=watch, name="limit of real time", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        _join(watcher, over)


def _join(watcher: threading.Thread, over: threading.Event) -> None:
    """End the watcher, and take what it may have raised in this thread at the last moment.

    That is not taken back with PyThreadState_SetAsyncExc(ident, NULL), which CPython 3.11 keeps as
    something to look at for ever: the first function that is called under a tracer (a debugger, a
    coverage tool, Hypothesis) then never begins.
    """
    while True:
        try:
            over.set()
            watcher.join()
            for _ in range(_INSTRUCTIONS):
                pass
            return
        except SpinningError:
            continue


def _raise_in(ident: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(error))


def _stack(frame: FrameType | None) -> str:
    frames = traceback.extract_stack(frame)
    kept = [each for each in frames if not each.filename.startswith(OWN_FILES)]
    return "Traceback (most recent call last):\n" + "".join(traceback.format_list(kept))
