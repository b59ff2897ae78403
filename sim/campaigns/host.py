"""A process beside this one that answers questions, each with one message of bytes.

Nothing of squall is imported here: a process that only passes messages on needs none of it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from weakref import WeakSet

#: real seconds that it gets to end by itself
_END_S = 20.0


class HostEndedError(Exception):
    """The process has ended: in which way, in one sentence."""


class HostProcess:
    """The process ``python -m module``, which reads a message from the connection that it is given
    the number of, answers it, and so on, and ends when the connection does.

    It starts clean, not as a copy of this one: threads of this process, and what they hold, are not
    there. Signals of the terminal do not reach it.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._connection, theirs = Pipe()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as it lives
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                start_new_session=True,
            )
        self.asked = False
        _HERE.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: bytes) -> None:
        """For an answer that comes later. The one before must have come: so neither side writes
        while the other does, which would be for ever. Raises HostEndedError."""
        assert not self.asked
        self.asked = True
        try:
            self._connection.send_bytes(question)
        except ConnectionError:
            raise self._ended() from None

    def answer(self, timeout_s: float) -> bytes | None:
        """None if it has not come by then. Raises HostEndedError."""
        try:
            if not self._connection.poll(timeout_s):
                return None
            found = self._connection.recv_bytes()
        except (EOFError, ConnectionError):
            raise self._ended() from None
        self.asked = False
        return found

    def close(self) -> None:
        """End it. It is told so and gets time for that: it may have others to end."""
        self._connection.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._kill()
        finally:
            self._complaints.close()

    def leave(self) -> None:
        """In a copy of this process: were the connection open there, too, its end would not be seen."""
        if not self._connection.closed:
            self._connection.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _ended(self) -> HostEndedError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        code = self._process.poll()
        how = f"exit code {code}" if code is None or code >= 0 else f"signal {-code}"
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace").splitlines()
        last = next((line.strip() for line in reversed(said) if line.strip()), "")
        # what a log has before the text, and what follows the first sentence, is for its authors
        sentence = re.sub(r"^\[.*?\]( \S+:\d+:)? ", "", last).split(". ")[0].rstrip(".")[:200]
        more = f": {sentence}" if sentence else ""
        return HostEndedError(f"the process {self._module} has ended, {how}{more}")


#: those whose processes are to see the end of this one, also while a copy of it goes on
_HERE: WeakSet[HostProcess] = WeakSet()


def _leave_all() -> None:
    for host in list(_HERE):
        host.leave()


os.register_at_fork(after_in_child=_leave_all)


def connection() -> Connection:
    """In the process itself: its end."""
    return Connection(int(sys.argv[1]))
