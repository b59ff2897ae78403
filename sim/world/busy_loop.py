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
from pathlib import Path
from types import FrameType

from squall.real.own_files import OWN_FILES
from squall.sim.world import heartbeat, interrupts

#: seconds that may be computed without a wait, where nobody says another number
DEFAULT_LIMIT_S = 120.0
#: how often it is looked at, in seconds
_LOOK_S = 0.25
#: rounds of a loop in which what was raised from another thread comes for certain
_INSTRUCTIONS = 100
#: how much longer than it may compute code may wait, and compute, in real time
_REAL = 2.5
#: seconds that the watcher may be late, and those in which what it raises ends the run
_LATE_S, _ENDS_S = 10.0, 1.2
_limit_s = DEFAULT_LIMIT_S


class SpinningError(BaseException):
    """Raised in code that has computed for longer than the limit: no Exception, as code that goes on
    whatever happens is meant. ``where``: a printable stack, without squall's own frames."""

    def __init__(self, text: str = "", where: str = "") -> None:
        super().__init__(text)
        self.where = where


def computed(limit_s: float) -> str:
    """What has happened, in words."""
    return f"it computed for {limit_s:g} s without waiting for anything (--wall-limit)"


def waited(limit_s: float) -> str:
    """The same, where it was not this process that computed."""
    return f"it waited for {limit_s * _REAL:g} s of real time for something outside the simulation (--wall-limit)"


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
    before, when it computes for longer than the limit while ``progress()`` stays what it is; and
    KeyboardInterrupt, when it has lost an interrupt."""
    limit, ident, over = _limit_s, threading.get_ident(), threading.Event()
    native = threading.get_native_id()

    def watch() -> None:
        last, since, ends_s = progress(), _Clock(native), 0.0
        while not over.wait(_LOOK_S):
            now = progress()
            if now != last:
                last, since = now, _Clock(native)
            elif interrupts.requested():
                _raise_in(ident, KeyboardInterrupt)
                heartbeat.promise(_ENDS_S)
                return
            elif text := since.is_over(limit):
                end(SpinningError(text, _stack(sys._current_frames().get(ident))))
                # Again and again: it may be caught.
                _raise_in(ident, SpinningError)
                ends_s = ends_s or time.monotonic() + _ENDS_S
                heartbeat.promise(max(0.0, ends_s - time.monotonic()))
                continue
            heartbeat.promise(limit * _REAL + _LATE_S)

    watcher = threading.Thread(target=watch, name="limit of real time", daemon=True)
    heartbeat.promise(limit * _REAL + _LATE_S)
    watcher.start()
    try:
        yield
    finally:
        _join(watcher, over)
        heartbeat.promise(float("inf"))


class _Clock:
    """What has passed since it was made: processor time, and real time in which a thread had a processor or did not
    ask for one."""

    def __init__(self, thread: int) -> None:
        self._queued = Path(f"/proc/self/task/{thread}/schedstat")
        self._computed_s, self._began_s = time.process_time(), self._real_s()

    def _real_s(self) -> float:
        """Without the seconds in which other processes had the processors, where the system tells them."""
        try:
            return time.monotonic() - int(self._queued.read_text(encoding="utf-8").split()[1]) / 1e9
        except OSError:
            return time.monotonic()

    def is_over(self, limit: float) -> str | None:
        """In words: it has computed for so long, or waited for something real for longer."""
        if time.process_time() - self._computed_s > limit:
            return computed(limit)
        return waited(limit) if self._real_s() - self._began_s > limit * _REAL else None


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
