"""The processes that a process has started, and those that they have, and what they all take; from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path


def descendants(pid: int | None = None) -> dict[int, str]:
    """By their ids, the command lines of those of a process, of this one by default."""
    return {
        each: command_of(each) for each in _below(os.getpid() if pid is None else pid, _stats())
    }


def cpu_s() -> float:
    """Seconds of a processor of this process and of all that it has started, be they alive, or ended and waited for."""
    stats = _stats()
    own = os.getpid()
    # user and system time, then those of children that have ended; see proc_pid_stat(5)
    ticks = sum(sum(map(int, stats[each][11:15])) for each in [own, *_below(own, stats)])
    return ticks / os.sysconf("SC_CLK_TCK")


def _stats() -> dict[int, list[str]]:
    """By each process of the machine, its fields from its state on."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                found[int(name)] = (
                    Path(f"/proc/{name}/stat")
                    .read_text(encoding="utf-8")
                    .rpartition(")")[2]
                    .split()
                )
    return found


def _below(pid: int, stats: dict[int, list[str]]) -> list[int]:
    children = defaultdict(list)
    for each, fields in stats.items():
        children[int(fields[1])].append(each)
    found = list(children[pid])
    for each in found:
        found += children[each]
    return found


def command_of(pid: int) -> str:
    """Empty once it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\\0", b" ").decode()
    return ""
