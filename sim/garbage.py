"""Garbage collection at fixed points of a run instead of whenever an allocation count says.

A collected ``UserRRef`` sends a message, so the moment of a collection is part of the run.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deterministic_garbage() -> Iterator[None]:
    """Automatic collection off; what exists already is left out of later collections."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def collect() -> None:
    """Collect now: at a point that the run itself determines."""
    gc.collect()
