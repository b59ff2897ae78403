"""Which files a run removes, and where."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

#: events of Python's auditing (the table in its documentation) whose first argument is a path that is gone then
_REMOVES = frozenset(["os.remove", "os.rename", "os.rmdir", "shutil.rmtree"])
_told: list[Callable[[str], object]] = []


@contextmanager
def noted(tell: Callable[[str], object]) -> Iterator[None]:
    """Tell of each path that is removed in this block, on the stack that removes it."""
    _hook()
    _told.append(tell)
    try:
        yield
    finally:
        _told.pop()


@cache
def _hook() -> None:
    """Once for this process: Python cannot take it back."""
    sys.addaudithook(_audit)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _told and event in _REMOVES and isinstance(args[0], str | os.PathLike):
        _told[-1](os.path.abspath(args[0]))
