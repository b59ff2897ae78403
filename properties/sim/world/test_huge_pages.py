"""Memory on huge pages: it holds what it held."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from squall.sim.world.huge_pages import use_huge_pages

_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SIZE = 32 << 20


def _huge_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("AnonHugePages:"))


@pytest.mark.skipif(
    sys.platform != "linux"
    or not _ENABLED.exists()
    or "[never]" in _ENABLED.read_text(encoding="utf-8"),
    reason="this system has no huge pages",
)
def test_what_is_in_memory_lies_on_huge_pages_and_is_the_same() -> None:
    held = bytearray(range(256)) * (_SIZE // 256)
    use_huge_pages()
    if not _huge_bytes():
        pytest.skip("this system has none to give, or none at once: Linux before 6.1")
    assert _huge_bytes() >= _SIZE // 2
    assert held == bytearray(range(256)) * (_SIZE // 256)
