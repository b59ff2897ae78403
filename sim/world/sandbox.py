"""A copy of this process, for work that may hang, crash, or leave something behind.

    copy = Contained(work, 7)                # there, work(connection, 7) begins
    answer = copy.connection.recv()
    exit_code = copy.end()

It is a fork, so that what is imported and compiled here is there at once. A process that has used
CUDA cannot be copied.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_FORK = multiprocessing.get_context("fork")
#: signals of a terminal or of whoever ends a campaign
_STOPS = frozenset({signal.SIGINT, signal.SIGTERM})
#: of prctl(2): which signal a process gets as its parent ends
_PR_SET_PDEATHSIG = 1
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Contained:
    """A copy of this process that runs ``work(connection, *args)``, and what it sends.

    It ignores interrupts, which whoever waits for its answer decides on, and ends with its work.
    Whoever makes one ends it.
    """

    def __init__(self, work: Callable[..., object], *args: Any) -> None:
        self.connection, theirs = _FORK.Pipe()
        # What a signal raises while Python sees to a fork is lost, and the copy must not be
        # interrupted before it has said what is to become of signals.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        self._process = _FORK.Process(
            target=_run, args=(self.connection, theirs, before, work, args)
        )
        try:
            with warnings.catch_warnings():
                # Python warns of other threads; the copy runs none of them and waits for none.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
            theirs.close()
            # A signal that came meanwhile raises here, or above if another thread has heard it.
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            if self._process.pid is not None:
                self.end()
            raise

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    def wait(self) -> int:
        """Close the connection, which is how work that reads from it ends, and wait for that.

        Returns the exit code; a negative one is the signal that ended it.
        """
        self.connection.close()
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        return code

    def end(self) -> int:
        """Make sure that it is gone, and return its exit code as :meth:`wait` does."""
        self._process.kill()
        return self.wait()


def end_with_parent() -> None:
    """Called in a copy: the system ends it as soon as the thread that has made it is gone, whatever
    ended that. For a copy that may hang, of a process that somebody may kill. Linux only; elsewhere
    nothing is done."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before
            os._exit(0)


def _run(
    ours: Connection,
    theirs: Connection,
    mask: set[signal.Signals],
    work: Callable[..., object],
    args: tuple[Any, ...],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    ours.close()
    with contextlib.suppress(EOFError, ConnectionError):  # nobody waits any more
        work(theirs, *args)
    os._exit(0)  # whatever else there is in it: threads, functions to be called at the end


def resident_bytes(pid: int | str = "self") -> int:
    """Memory that a process has in use; what it shares with its parent counts too. 0 if it is gone,
    or where there is no /proc."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    return 0
