"""A pytest plugin: a test that fails after it ran a scenario says how to run that again.

    def test_a_drawn_scenario(replayable: Replayable) -> None:
        scenario = replayable(draw(7))

If the test fails, the last scenario that it passed to ``replayable`` is kept with the stored
failures, and its report ends with a line ``squall replay …``. With Hypothesis the last one is that
of the smallest example. The corpus of old failures runs first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

import pytest

from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.keeping import Keeper

#: remembers a scenario as the one that the test runs now, and returns it
Replayable = Callable[[Scenario], Scenario]

_FIRST = "test_corpus.py"
_LATEST = pytest.StashKey[Scenario]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name != _FIRST)  # stable: the rest stays in order


@pytest.fixture
def replayable(request: pytest.FixtureRequest) -> Replayable:
    """Remembers the scenario that the test runs."""
    stash = request.node.stash

    def remember(scenario: Scenario) -> Scenario:
        stash[_LATEST] = scenario
        return scenario

    return remember


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
    scenario = item.stash.get(_LATEST, None)
    if scenario is None:
        return []
    first_line = text.partition("\n")[0][:200]
    expected = Expected(outcome="failed", property="pytest", what=item.nodeid)
    lines: list[str] = []
    kept = Keeper(lines.append).keep(
        replace(scenario, expected=expected, note=item.nodeid), found_by="pytest", text=first_line
    )
    if kept is None:
        return lines
    return [f"its last run, again: {kept.replay}", f"to look at: {kept.timeline}"]
