"""Signals between simulated processes. Imports no torch."""

from __future__ import annotations

import signal as real_signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squall.sim.scripts.compat.process import SimProcess

#: signals that a process survives that has no handler for them
_HARMLESS = (real_signal.SIGCHLD, real_signal.SIGCONT, real_signal.SIGURG, real_signal.SIGWINCH)


def deliver(process: SimProcess, signum: int) -> None:
    """Let a process get a signal: call its handler, or end it. Its own comes at once, another's as a task
    of its own beside what the process does."""
    handler = process.signal_handlers.get(signum, real_signal.SIG_DFL)
    if handler == real_signal.SIG_IGN or (signum in _HARMLESS and not callable(handler)):
        return
    runtime = process.group.runtime
    if not callable(handler) or signum == real_signal.SIGKILL:
        process.terminate(-signum)
    elif runtime.running.worker is process.worker and runtime.running is not runtime.hub_task:
        handler(signum, None)
    else:
        name = f"handler of signal {signum}"
        runtime.spawn(lambda: handler(signum, None), name=name, worker=process.worker)
