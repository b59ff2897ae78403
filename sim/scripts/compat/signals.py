"""``signal`` as one simulated process sees it, and signals between simulated processes.

Handlers are called for what ``os.kill``, ``raise_signal``, ``alarm`` and ``setitimer`` of simulated
processes send; nothing that comes from outside is delivered to one. Imports no torch.
"""

from __future__ import annotations

import signal as real_signal
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from greenlet import GreenletExit

from squall.sim.scripts.compat.errors import OwnInterrupt
from squall.sim.scripts.compat.module_facades import Facade

if TYPE_CHECKING:
    from squall.real.runtime import Event
    from squall.sim.scripts.compat.modules import ModuleSpace
    from squall.sim.scripts.compat.process import SimProcess
    from squall.sim.world.primitives import SimTimer

#: signals that a process survives that has no handler for them
_HARMLESS = (real_signal.SIGCHLD, real_signal.SIGCONT, real_signal.SIGURG, real_signal.SIGWINCH)
#: signals for which there can be no handler
_UNHANDLED = (real_signal.SIGKILL, real_signal.SIGSTOP)
#: key in ``SimProcess.locals``: what is set by the next signal that is handled
_PAUSES = "signal.pause"
#: what waits for signals in a way that is not simulated
_WAITS = ("sigpending", "sigtimedwait", "sigwait", "sigwaitinfo")


class _Alarm:
    """The one timer of a process that sends it SIGALRM, again and again if it has an interval."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process
        self._timer: SimTimer | None = None
        self._due_s = self._interval_s = 0.0

    def left(self) -> tuple[float, float]:
        """Seconds until it rings, 0.0 if it does not, and its interval."""
        if self._timer is None:
            return 0.0, 0.0
        return max(0.0, self._due_s - self._process.group.runtime.now()), self._interval_s

    def set(self, seconds: float, interval_s: float = 0.0) -> tuple[float, float]:
        before = self.left()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds:
            runtime = self._process.group.runtime
            self._due_s, self._interval_s = runtime.now() + seconds, interval_s
            self._timer = runtime.call_later(seconds, self._ring)
        return before

    def _ring(self) -> None:
        self._timer = None
        if self._process.has_ended:
            return
        if self._interval_s:
            self.set(self._interval_s, self._interval_s)
        deliver(self._process, int(real_signal.SIGALRM))


def make_signal(space: ModuleSpace) -> ModuleType:
    process: SimProcess = space.process
    handlers: dict[int, Any] = process.signal_handlers
    timer = _Alarm(process)

    def signal(signalnum: int, handler: Any, /) -> Any:
        if not callable(handler) and handler not in (real_signal.SIG_DFL, real_signal.SIG_IGN):
            raise TypeError(
                "signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object"
            )
        if process.group.runtime.running is not process.main_task:
            raise ValueError("signal only works in main thread of the main interpreter")
        before = getsignal(signalnum)
        if signalnum in _UNHANDLED:
            raise OSError(22, "Invalid argument")
        handlers[int(signalnum)] = handler
        return before

    def getsignal(signalnum: int, /) -> Any:
        if not 1 <= signalnum < real_signal.NSIG:
            raise ValueError("signal number out of range")
        return handlers.get(int(signalnum), _default(signalnum))

    def alarm(seconds: int, /) -> int:
        before_s, _ = timer.set(float(seconds))
        return int(-(-before_s // 1))  # what is begun counts

    def setitimer(which: int, seconds: float, interval: float = 0.0, /) -> tuple[float, float]:
        if which != real_signal.ITIMER_REAL:
            raise NotImplementedError(
                "signal.setitimer is simulated for ITIMER_REAL: code that runs takes no virtual time"
            )
        if seconds < 0 or interval < 0:
            raise real_signal.ItimerError(22, "Invalid argument")
        return timer.set(float(seconds), float(interval))

    def getitimer(which: int, /) -> tuple[float, float]:
        return timer.left() if which == real_signal.ITIMER_REAL else (0.0, 0.0)

    def raise_signal(signalnum: int, /) -> None:
        deliver(process, int(signalnum))

    def pause() -> None:
        handled: Event = process.group.runtime.event("a signal")
        process.locals.setdefault(_PAUSES, []).append(handled)
        handled.wait()

    return Facade(
        space,
        real_signal,
        {
            "alarm": alarm,
            "default_int_handler": _interrupt,
            "getitimer": getitimer,
            "getsignal": getsignal,
            "pause": pause,
            "raise_signal": raise_signal,
            "setitimer": setitimer,
            "signal": signal,
            **{name: _refusal() for name in _WAITS},
        },
    )


def _refusal() -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        raise NotImplementedError(
            "waiting for a signal is not simulated but for signal.pause: set a handler (signal.signal)"
        )

    return refuse


def _default(signum: int) -> Any:
    return _interrupt if signum == real_signal.SIGINT else real_signal.SIG_DFL


def _interrupt(signum: int, frame: object) -> NoReturn:
    """``signal.default_int_handler``, which is told from Ctrl-C at the terminal of the run."""
    raise OwnInterrupt


def deliver(process: SimProcess, signum: int) -> None:
    """Let a process get a signal: call its handler, or end it. Its own comes at once, another's as a task
    of its own beside what the process does; what the handler raises then ends the process."""
    handler = process.signal_handlers.get(signum)
    runtime = process.group.runtime
    own = runtime.running.worker is process.worker and runtime.running is not runtime.hub_task
    if handler is None:
        handler = _default(signum) if own else real_signal.SIG_DFL
    if handler == real_signal.SIG_IGN or (signum in _HARMLESS and not callable(handler)):
        return
    if not callable(handler) or signum == real_signal.SIGKILL:
        process.terminate(-signum)
        return
    for waits in process.locals.pop(_PAUSES, []):
        waits.set()
    if own:
        handler(signum, None)
        return

    def handle() -> None:
        try:
            handler(signum, None)
        except GreenletExit:
            raise
        except BaseException as error:
            process.end_by(error, f"the handler of signal {signum}")

    runtime.spawn(handle, name=f"handler of signal {signum}", worker=process.worker)
