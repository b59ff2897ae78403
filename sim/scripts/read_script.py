"""Reads the script of a file, with the arguments of each rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from squall.sim.scenario import Script
from squall.sim.scripts.ranks_file import read_line


def read_script(
    path: Path,
    args: tuple[str, ...] = (),
    *,
    workers: int | None = None,
    check: bool = True,
    others: Sequence[tuple[Path, tuple[str, ...]]] = (),
) -> Script:
    """The script in a file, as it is now; see :class:`Script`. ``others``: file and arguments of each
    rank from 1 on, if each has its own. Raises as :func:`read_line` does, and ValueError for another
    number of ``workers`` than there are command lines.
    """
    first = read_line(path, args)
    more = tuple(read_line(*each) for each in others)
    if workers is None and more:
        workers = 1 + len(more)
    return Script(
        path=first.path, text=first.text, args=args, workers=workers, check=check, others=more
    )
