"""The processes that a process has started, and those that they have; from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path


def descendants(pid: int | None = None) -> dict[int, str]:
    """By their ids, the command lines of those of a process, of this one by default."""
    children = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            children[int(parent)].append(int(folder.name))
    found: dict[int, str] = {}
    to_see = list(children[os.getpid() if pid is None else pid])
    for each in to_see:
        to_see += children[each]
        found[each] = command_of(each)
    return found


def command_of(pid: int) -> str:
    """Empty once it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\\0", b" ").decode()
    return ""
