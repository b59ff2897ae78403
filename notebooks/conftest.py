"""Which notebooks can run on this machine (``make test-notebooks``)."""

from __future__ import annotations

import pytest

from squall.real.native.build import Unavailable, compiler

#: those that start PyTorch's compiled engine
COMPILED = ("06_two_engines.ipynb",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        compiler()
    except Unavailable as missing:
        for item in items:
            if item.path.name in COMPILED:
                item.add_marker(pytest.mark.skip(reason=str(missing)))
