"""A run of everything takes a small sample of PyTorch's tests; a run of this folder takes all."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: of the tests of a folder above, one in so many is run, and at least one of each suite
ONE_IN = 80


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(_is_here(argument) for argument in config.args):
        return
    suites: set[str] = set()
    left_out: list[pytest.Item] = []
    number = 0
    for item in items:
        test = getattr(getattr(item, "callspec", None), "params", {}).get("torch_test")
        if not test:
            continue
        if test.suite in suites and number % ONE_IN:
            left_out.append(item)
        suites.add(test.suite)
        number += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _is_here(argument: str) -> bool:
    path = Path(argument.partition("::")[0]).resolve()
    return path == HERE or HERE in path.parents
