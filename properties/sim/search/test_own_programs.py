"""The programs that are kept for planted bugs which none of the small worlds shows."""

from __future__ import annotations

from importlib.resources import files

import pytest

from squall.properties.planted import programs
from squall.sim.scenarios.replay import replay
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.mutants.exploring import explorable, explore_mutants
from squall.sim.search.mutants.own_program import OWN, own_program
from squall.sim.search.mutants.registry import MUTANTS

NAMES = sorted(
    file.name.removesuffix(".json")
    for file in files(programs.__name__).iterdir()
    if file.name.endswith(".json")
)


def test_each_is_that_of_a_bug_that_is_explored() -> None:
    assert set(NAMES) <= {mutant.name for mutant in explorable(MUTANTS.values())}
    assert own_program("no-such-bug") == []


def test_all_hold_without_their_bug() -> None:
    """They have no order and no faults of their own, which exploring is to find."""
    with campaign_settings():
        for name in NAMES:
            (world,) = own_program(name)
            assert not world.scenario.faults, name
            assert replay(world.scenario).violations == [], name


@pytest.mark.parametrize("name", ["never-retried", "late-call-begins-anew"])
def test_time_is_up_when_it_is(name: str) -> None:
    (result,) = explore_mutants([MUTANTS[name]], 0.0)
    assert result.found is None and result.executions <= 1


def test_a_bug_that_no_world_shows_is_found_in_its_own_program() -> None:
    (result,) = explore_mutants([MUTANTS["clean-up-takes-another-pass"]], 60.0)
    assert result.found is not None and result.found.case.world == OWN
    assert result.bound is None
