"""How long a process of real time is waited for: by what it does, not by the clock on the wall.

A busy machine lets a process wait for a processor for as long as it likes, and that says nothing of
the process. So time passes for it only while it computes, or while all of its threads wait.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SLICE_S = 1.0
#: the part of a processor with which a process that does nothing still looks whether it is quiet
_LOOKING = 0.1
#: what a second counts in which nothing is computed
_WAITING = 0.05
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class ComputingError(TimeoutError):
    """A process has computed for longer than is waited for."""


def wait_readable(
    link: socket.socket, pid: int, patience_s: float, computing_s: float | None = None
) -> None:
    """Wait until there is something to read from ``link``, or its other end is closed.

    Raises ComputingError after the process has computed for ``computing_s`` seconds (None: for
    ``patience_s``), TimeoutError if it has for ``patience_s`` neither computed nor been ready to.
    """
    if select.select([link], [], [], _SLICE_S)[0]:
        return  # as a rule: what it has computed need not be asked
    spent, at_rest = processor_s(pid), 0.0
    limit = spent + (patience_s if computing_s is None else computing_s)
    while not select.select([link], [], [], _SLICE_S)[0]:
        before, spent = spent, processor_s(pid)
        if spent - before > _LOOKING * _SLICE_S:
            at_rest = 0.0
        elif _is_ready(pid):
            at_rest = max(0.0, at_rest - _SLICE_S)
        else:
            at_rest += _SLICE_S
        if spent > limit:
            took_s = patience_s if computing_s is None else computing_s
            raise ComputingError(f"it computed for {took_s:g} s without coming to rest")
        if at_rest >= patience_s:
            raise TimeoutError(f"it did nothing for {patience_s:g} s, and did not come to rest")


def processor_s(pid: int) -> float:
    """Seconds that a process has computed, its threads and children that it waited for included."""
    values = next(_stat(Path(f"/proc/{pid}")), None)
    return 0.0 if values is None else sum(map(int, values[11:15])) / _TICKS_A_SECOND


def computed_s() -> float:
    """Seconds of a processor that this process has taken, and those that it has started. Time in which all of them wait
    counts little: it does not end what others keep from the processor."""
    own = max(time.process_time(), processor_s(os.getpid()))
    return own + sum(map(processor_s, _started(os.getpid()))) + _WAITING * time.monotonic()


def _started(pid: int) -> Iterator[int]:
    """The processes that one has started, those too that these have."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended meanwhile
            for child in map(int, children.read_text(encoding="utf-8").split()):
                yield child
                yield from _started(child)


def _is_ready(pid: int) -> bool:
    """Whether one of its threads, or of its children's, runs, could run, or reads from a disk."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        if any(values[0] in "RD" for values in _stat(task)):
            return True
        with suppress(OSError):
            if any(
                map(_is_ready, map(int, (task / "children").read_text(encoding="utf-8").split()))
            ):
                return True
    return False


def _stat(folder: Path) -> Iterator[list[str]]:
    """The values behind the name in ``stat``, state first; none if it has ended."""
    with suppress(OSError):
        yield (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
