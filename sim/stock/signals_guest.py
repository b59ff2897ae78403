"""Inside a process of a script on the engine ``torch``: signals that come at a virtual time, of ``signal.alarm`` and
``setitimer`` and of other simulated processes. Their handlers are called by Python, in the main thread: in the midst of a
sleep, or of a wait for a lock or with a time limit of Python's, and after any other wait."""

from __future__ import annotations

import signal
import threading
from typing import Any

from squall.real.native import waits
from squall.real.native.here import Here

_signal: Any = signal
#: that end no process which has no handler for them
_HARMLESS = (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)


class Signals:
    def __init__(self, here: Here) -> None:
        self._here = here
        #: whether one has come
        self._has_come = False
        self._timer: int | None = None
        self._due_s = self._interval_s = 0.0

    def install(self) -> None:
        _signal.alarm = self._alarm
        _signal.setitimer = self._setitimer
        _signal.getitimer = self._getitimer

    def come(self, number: int) -> bool:
        """Another process sends one. Whether this one survives it."""
        handler = signal.getsignal(number)
        if callable(handler):
            self._deliver(number)
            return True
        # In all of them Ctrl-C is ignored, which is the coordinator's.
        is_ignored = handler == signal.SIG_IGN and number != signal.SIGINT
        return is_ignored or number in _HARMLESS

    def _deliver(self, number: int) -> None:
        self._has_come = True
        signal.pthread_kill(threading.main_thread().ident or 0, number)
        if waits.of_main_thread is not None:
            self._here.link.wake(waits.of_main_thread)

    def sleep(self, seconds: float) -> None:
        """Block for ``seconds`` of virtual time."""
        here = self._here
        if threading.current_thread() is not threading.main_thread():
            here.sleep(seconds)
            return
        end_s = here.now() + seconds
        while True:
            self._has_come = False
            waits.end(here.link, waits.begin(here.link, seconds))
            if not self._has_come:
                return
            seconds = end_s - here.now()
            if seconds <= 0:
                return

    def _alarm(self, seconds: int, /) -> int:
        before_s, _ = self._set(float(seconds), 0.0)
        return int(-(-before_s // 1))  # what is begun counts

    def _setitimer(
        self, which: int, seconds: float, interval: float = 0.0, /
    ) -> tuple[float, float]:
        if which != signal.ITIMER_REAL:
            raise NotImplementedError(
                "signal.setitimer is simulated for ITIMER_REAL: code that runs takes no virtual time"
            )
        if seconds < 0 or interval < 0:
            raise signal.ItimerError(22, "Invalid argument")
        return self._set(float(seconds), float(interval))

    def _getitimer(self, which: int, /) -> tuple[float, float]:
        if which != signal.ITIMER_REAL or self._timer is None:
            return 0.0, 0.0
        return max(0.0, self._due_s - self._here.now()), self._interval_s

    def _set(self, seconds: float, interval_s: float) -> tuple[float, float]:
        before = self._getitimer(signal.ITIMER_REAL)
        if self._timer is not None:
            self._here.link.wake(self._timer)
            self._timer = None
        if seconds:
            self._due_s, self._interval_s = self._here.now() + seconds, interval_s
            self._timer = self._here.ask_then(("sleep", seconds), self._ring)
        return before

    def _ring(self, _: bytes) -> None:
        self._timer = None
        if self._interval_s:
            self._set(self._interval_s, self._interval_s)
        self._deliver(signal.SIGALRM)
