"""Locks of files (``fcntl``) in virtual time: who has one may be waiting itself, in the simulation. Imports no torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

#: seconds after which one that waits for a lock looks again: at first, and at most
_FIRST_S, _MOST_S = 1e-4, 1.0


def functions(fcntl: ModuleType, sleep: Callable[[float], object]) -> dict[str, Any]:
    """By name: what takes the place of functions of ``fcntl``. ``sleep``: lets virtual time pass."""
    real: Any = fcntl
    return {name: _waiting(real, getattr(real, name), sleep) for name in ("flock", "lockf")}


def _waiting(fcntl: Any, lock: Callable[..., Any], sleep: Callable[[float], object]) -> Any:
    @functools.wraps(lock)
    def locked(fd: Any, how: int, *range_: int) -> Any:
        if how & (fcntl.LOCK_NB | fcntl.LOCK_UN):
            return lock(fd, how, *range_)
        pause_s = _FIRST_S
        while True:
            try:
                return lock(fd, how | fcntl.LOCK_NB, *range_)
            except (BlockingIOError, PermissionError):
                sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_S)

    return locked
