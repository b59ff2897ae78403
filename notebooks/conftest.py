"""Which notebooks are run (``make test-notebooks``)."""

from __future__ import annotations

import os

import pytest

#: those that start PyTorch's compiled engine
COMPILED = ("06_two_engines.ipynb",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("SQUALL_WITHOUT_NATIVE") == "1":
        for item in items:
            if item.path.name in COMPILED:
                item.add_marker(pytest.mark.skip(reason="SQUALL_WITHOUT_NATIVE=1"))
