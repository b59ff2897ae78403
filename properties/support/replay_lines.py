"""A pytest plugin: a test that fails after it ran a scenario says how to run that again.

The scenario of the last run is kept with the stored failures, and the report of the test ends with
a line ``squall replay …``. With Hypothesis the last run is that of the smallest example. The
corpus of old failures runs first.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from squall.sim.scenario import Expected
from squall.sim.scenarios import noted
from squall.sim.scenarios.keeping import Keeper

_FIRST = ("test_corpus.py", "test_faults_corpus.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _FIRST)  # stable: the rest stays in order


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    noted.forget()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" and report.failed:
        lines = _replay_lines(item, str(call.excinfo.value) if call.excinfo is not None else "")
        if lines:
            report.sections.append(("squall", "\n".join(lines)))
    return report


def _replay_lines(item: pytest.Item, text: str) -> list[str]:
    saved = noted.last_scenario()
    if saved is None:
        return []
    first_line = text.partition("\n")[0][:200]
    expected = Expected(outcome="failed", property="pytest", what=item.nodeid)
    lines: list[str] = []
    kept = Keeper(lines.append).keep(
        replace(saved, expected=expected, note=item.nodeid), found_by="pytest", text=first_line
    )
    if kept is None:
        return lines
    return [f"its last run, again: {kept.replay}", f"to look at: {kept.timeline}"]
