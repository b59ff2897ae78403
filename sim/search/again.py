"""A scenario again, with the bug planted that it was found with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from squall.model.events.run import Run
from squall.sim.scenario import Scenario
from squall.sim.scenarios.file import ScenarioError
from squall.sim.scenarios.replay import Until, replay
from squall.sim.search.mutants.families import MUTANTS
from squall.sim.world.watch import Watcher


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Plant the mutant of that name, if there is one. Raises ScenarioError if it is not known."""
    if name is None:
        yield
        return
    mutant = MUTANTS.get(name)
    if mutant is None:
        raise ScenarioError(f"scenario.expected.mutant: there is no mutant {name!r}")
    with mutant.apply():
        yield


def again(
    scenario: Scenario,
    *,
    watcher: Watcher | None = None,
    seconds: float | None = None,
    until: Until | None = None,
) -> Run:
    """:func:`squall.sim.scenarios.replay.replay`, with the scenario's bug planted."""
    with planted(scenario.expected.mutant):
        return replay(scenario, watcher=watcher, seconds=seconds, until=until)
