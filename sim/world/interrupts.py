"""Ctrl-C, and requests to terminate, which code under test may catch or lose.

The exception that an interrupt raises appears wherever the process happens to be: in a function of
the user that catches ``KeyboardInterrupt``, in a destructor, where Python drops it. So it is noted
as well, and raised again where the simulation goes on and where a result would be used. The second
interrupt ends the process, whatever it does.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from squall.sim.world import heartbeat

_SHOW_CURSOR = "\x1b[?25h"


class Interruptible(Protocol):
    """A simulation that runs."""

    def fail(self, error: BaseException) -> None:
        """End with ``error`` after what happens just now."""


class _State:
    def __init__(self) -> None:
        self.requested = False
        #: blocks of :func:`heard` and of :func:`deferred` that have begun
        self.hearing = 0
        self.deferring = 0
        self.running: Interruptible | None = None


_state = _State()


def interrupt(signum: int, frame: FrameType | None = None) -> None:
    """What a signal does. The next one ends the process at once."""
    _state.requested = True
    heartbeat.promise(heartbeat.HEARD)
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_DFL)
    if sys.__stderr__ is not None and sys.__stderr__.isatty():
        sys.__stderr__.write(_SHOW_CURSOR)  # a progress bar cannot, once the process has ended
    if _state.running is not None:
        _state.running.fail(KeyboardInterrupt())
    if not _state.deferring:
        raise KeyboardInterrupt


def stop() -> None:
    """Let the simulation that runs end as an interrupt does, after what happens just now: its code
    sees nothing of it. Raises KeyboardInterrupt where none runs."""
    _state.requested = True
    if _state.running is None:
        raise KeyboardInterrupt
    _state.running.fail(KeyboardInterrupt())


def requested() -> bool:
    """Whether there was an interrupt."""
    return _state.requested


def check() -> None:
    """Raises KeyboardInterrupt if there was an interrupt, whoever may have caught it."""
    if _state.requested:
        raise KeyboardInterrupt


@contextmanager
def heard() -> Iterator[None]:
    """Interrupts, and requests to terminate, are noted in this block. In another thread than the
    main one, which gets none, nothing is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    outermost = not _state.hearing
    if outermost:
        _state.requested = False
    if not _state.requested:
        for each in before:
            signal.signal(each, interrupt)
    _state.hearing += 1
    try:
        yield
    finally:
        _state.hearing -= 1
        if outermost or not _state.requested:
            for each, handler in before.items():
                signal.signal(each, handler)
        if outermost:
            _state.requested = False


@contextmanager
def deferred() -> Iterator[None]:
    """An interrupt is noted in this block, and raises nothing: see :func:`check`."""
    _state.deferring += 1
    try:
        yield
    finally:
        _state.deferring -= 1


@contextmanager
def ends(simulation: Interruptible) -> Iterator[None]:
    """An interrupt ends ``simulation`` in this block, also where its code catches the exception."""
    before, _state.running = _state.running, simulation
    try:
        yield
    finally:
        _state.running = before
