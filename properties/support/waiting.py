"""Waiting for what another process does: no longer than it can take, and not without a reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: seconds; Ray on a busy machine may take a good part of it
PATIENCE_S = 480.0
_LOOK_S = 0.01


def wait_for(event: Callable[[], T], what: str) -> T:
    """The first value of ``event()`` that is true, asked for again and again.

    Raises :class:`AssertionError`, which says what never came, after ``PATIENCE_S`` seconds.
    """
    until_s = time.monotonic() + PATIENCE_S
    while not (value := event()):
        assert time.monotonic() < until_s, f"in {PATIENCE_S:g} s there was never {what}"
        time.sleep(_LOOK_S)
    return value
