"""A pytest plugin: a process that runs many tests gives memory back that they no longer need.

A scenario runs with the collector off and moves whatever exists into its oldest generation, so
that Python hardly ever looks there by itself: what tests leave in cycles would stay, and the C
library keeps what is freed. Both are asked to let go when the process has grown by ``GROWN``: a
look at its size takes 20 microseconds after each test, and the rest half a second, a few dozen
times in all tests.
"""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import pytest

#: bytes
FREED = 4 * 2**20
GROWN = 8 * 2**20

#: in names of tests that run on a device
_DYNAMO = ("stand_in", "device", "test_input_abi", "test_kernel_watch", "test_same_everywhere")
_SIZES = Path("/proc/self/statm")


class Memory:
    """Resident memory of this process, and what it was when last something was given back."""

    def __init__(self) -> None:
        self._trim = ctypes.CDLL(None).malloc_trim
        self._page = os.sysconf("SC_PAGESIZE")
        self._last = self._held = self.resident()

    def resident(self) -> int:
        """In bytes."""
        return int(_SIZES.read_text(encoding="utf-8").split()[1]) * self._page

    def give_back(self) -> None:
        self._trim(0)
        if self.resident() > self._held + GROWN:
            gc.collect()
            self._trim(0)
            self._held = self.resident()
        self._last = self.resident()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        if self.resident() > self._last + FREED:
            self.give_back()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who runs on a device has torch._dynamo, 70 MB of it: one process of two gets them all, and the other one pandas
    and plotly."""
    items.sort(key=lambda item: not any(word in item.nodeid for word in _DYNAMO))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where a process cannot be asked for its size, or the C library to let go, nothing is done."""
    if _SIZES.exists() and hasattr(ctypes.CDLL(None), "malloc_trim"):
        session.config.pluginmanager.register(Memory())
