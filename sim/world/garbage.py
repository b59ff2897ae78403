"""Garbage collection at fixed points of a run instead of whenever an allocation count says.

A collected ``UserRRef`` sends a message, so the moment of a collection is part of the run.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: how many campaigns have turned the collector off for all of their runs
_still = 0


@contextmanager
def deterministic_garbage() -> Iterator[None]:
    """Automatic collection off; what exists already is left out of later collections."""
    if _still:
        yield
        return
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextmanager
def no_collections() -> Iterator[None]:
    """Automatic collection off, for whoever imports a lot: what is imported stays, and to look through it
    again and again takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def still_garbage() -> Iterator[None]:
    """:func:`deterministic_garbage` once for many runs, each of which begins with :func:`settle`.

    After ``gc.unfreeze`` every later collection looks at the whole heap, mostly at modules, which
    takes longer than a scenario does.
    """
    global _still
    with deterministic_garbage():
        _still += 1
        try:
            yield
        finally:
            _still -= 1


def keep_still() -> None:
    """:func:`still_garbage` for as long as the process lives."""
    global _still
    gc.disable()
    gc.freeze()
    _still += 1


def settle() -> None:
    """Forget the last run: collect what it left in cycles, and leave out what it left to stay."""
    gc.collect()
    if _still:
        gc.freeze()


def collect() -> None:
    """Collect now: at a point that the run itself determines."""
    gc.collect()
