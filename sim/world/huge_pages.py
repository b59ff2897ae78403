"""What a process has in memory, on pages of 2 MiB: the processor finds them without looking them up.

A scenario goes through a hundred megabytes of objects that lie where they came to lie as modules were
imported. On a virtual machine a sixth of its time went into looking up their small pages.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SIZE = 2 << 20
# Of Linux; Python's module mmap has no name for the second, which is there from 6.1 on.
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25
#: a part of memory, as /proc/self/smaps has it; what is left out there is nobody's file
_PART = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?\n(?:.*\n)*?Rss: +(\d+) kB", re.M
)


def use_huge_pages() -> None:
    """Lay what is in memory now on huge pages, where the system has them. Takes some 5 ms for each."""
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for begin, size in _full_parts():
            advise(begin, size, _MADV_HUGEPAGE)
            for at in range(begin, begin + size, _SIZE):
                advise(at, _SIZE, _MADV_COLLAPSE)  # what cannot be laid so stays as it is


def _full_parts() -> Iterator[tuple[int, int]]:
    """Where what is used most of begins, and how long it is: whole pages of it."""
    for found in _PART.finditer(Path("/proc/self/smaps").read_text(encoding="utf-8")):
        begin, end = int(found[1], 16), int(found[2], 16)
        if int(found[3]) * 1024 * 2 < end - begin:
            continue
        begin = -(-begin // _SIZE) * _SIZE
        size = (end - begin) // _SIZE * _SIZE
        if size > 0:
            yield begin, size
