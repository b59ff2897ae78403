"""Numbers that a process of another program judges, which writes lines as it goes on."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from squall.sim.campaigns.parts.part import Alive
from squall.sim.campaigns.row import Row
from squall.sim.world.sandbox import end_with_parent

#: how often a process is started anew that somebody outside has ended, before that is a failure
TRIES = 3
_FROM_OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP})
#: real seconds between two looks at a process that writes nothing, and bytes that are read at once
_LOOK_S, _BLOCK = 1.0, 65536
#: real seconds that a process has to end which is told to
_ABORT_S = 10.0


class Ended(NamedTuple):
    """How a process has ended that left numbers without a row: its exit code, negative if a signal
    ended it, and the number that it was at; None if it was at none of them."""

    code: int
    at: int | None = None


#: judges some numbers: gives their rows in any order, and says how its process has ended
Attempt = Callable[[Sequence[int]], Generator[Row, None, Ended]]


def judged(numbers: range, attempt: Attempt, failed: Callable[[int, Ended], Row]) -> Iterator[Row]:
    """The rows of all numbers, in their order. The one that a process was at as it ended has
    ``failed``, and the next process goes on with the rest; it is tried again first if somebody
    outside has ended the process."""
    rows: dict[int, Row] = {}
    tries = 0
    first = numbers.start
    while first < numbers.stop:
        left = [number for number in range(first, numbers.stop) if number not in rows]
        run = attempt(left)
        count = 0
        while True:
            try:
                row = next(run)
            except StopIteration as stop:
                ended: Ended = stop.value
                break
            rows[row.seed] = row
            count += 1
            while first in rows:
                yield rows.pop(first)
                first += 1
        tries = 1 if count else tries + 1
        if count == len(left) or (count and ended.at is None):
            continue
        if ended.code not in _FROM_OUTSIDE or tries == TRIES:
            at = first if ended.at is None else ended.at
            rows[at], tries = failed(at, ended), 0
            while first in rows:
                yield rows.pop(first)
                first += 1


class Elsewhere:
    """A process, and the lines that it writes. It ends with this one, hears nothing of the terminal, and has
    the signals of one that a shell has started: whoever judges has blocked or ignores some."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: int) -> None:
        self._process, self._pipe = process, pipe

    def lines(self, alive: Alive = lambda: None, silence_s: float = math.inf) -> Iterator[str]:
        """Until it has ended; ``alive`` is called meanwhile. ``silence_s``: real seconds without a line
        after which it is ended."""
        rest = b""
        heard = time.monotonic()
        while True:
            ready, _, _ = select.select([self._pipe], [], [], _LOOK_S)
            alive()
            if ready:
                block = os.read(self._pipe, _BLOCK)
                if not block:
                    return
                heard = time.monotonic()
                *whole, rest = (rest + block).split(b"\n")
                for line in whole:
                    yield line.decode()
            elif self._process.poll() is not None:
                return  # a process that it has left behind may hold the pipe open
            elif time.monotonic() - heard > silence_s:
                os.killpg(self._process.pid, signal.SIGABRT)  # nobody outside sends that one
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_ABORT_S)
                self.end()

    def wait(self) -> int:
        """Its exit code."""
        return self._process.wait()

    def end(self) -> None:
        """With all that it has started and that has stayed in its session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def elsewhere(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    folder: Path | None = None,
    output: IO[bytes] | int = subprocess.DEVNULL,
    variable: str | None = None,
) -> Iterator[Elsewhere]:
    """Start a process, which is ended on leaving. Its lines come from standard output, or from the
    pipe whose number it finds in the environment, as ``variable``. The rest of what it prints goes to
    ``output``."""
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=env if variable is None else {**env, variable: str(theirs)},
            stdin=subprocess.DEVNULL,
            stdout=theirs if variable is None else output,
            stderr=output,
            pass_fds=() if variable is None else (theirs,),
            start_new_session=True,
            preexec_fn=_begin,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    found = Elsewhere(process, ours)
    try:
        yield found
    finally:
        found.end()
        os.close(ours)


def _begin() -> None:
    end_with_parent()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
