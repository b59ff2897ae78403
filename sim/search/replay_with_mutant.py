"""A scenario again, with the bug planted that it was found with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from squall.sim.scenarios.file import ScenarioError

if TYPE_CHECKING:
    from squall.model.events.run import Run
    from squall.sim.scenario import Scenario
    from squall.sim.scenarios.replay import Until
    from squall.sim.search.mutants.mutant import Mutant
    from squall.sim.world.watch import Watcher


def known_mutant(name: str | None) -> Mutant | None:
    """The mutant of that name, None for none. Raises ScenarioError if it is not known."""
    if name is None:
        return None
    from squall.sim.search.mutants.registry import ALL_MUTANTS, LISTED

    mutant = ALL_MUTANTS.get(name)
    if mutant is None:
        raise ScenarioError(f"scenario.expected.mutant: there is no mutant {name!r}; {LISTED}")
    return mutant


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Plant the mutant of that name, if there is one. Raises ScenarioError if it is not known."""
    mutant = known_mutant(name)
    with nullcontext() if mutant is None else mutant.apply():
        yield


def again(
    scenario: Scenario,
    *,
    watcher: Watcher | None = None,
    seconds: float | None = None,
    until: Until | None = None,
) -> Run:
    """:func:`squall.sim.scenarios.replay.replay`, with the scenario's bug planted."""
    from squall.sim.scenarios.replay import replay

    with planted(scenario.expected.mutant):
        return replay(scenario, watcher=watcher, seconds=seconds, until=until)
