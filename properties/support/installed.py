"""Marks for tests of what squall can do without: they are skipped where it is not installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

#: asked without an import: Ray alone is 35 MB of each process that collects the tests
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="Ray is not installed: pip install 'squall[ray]'"
)
