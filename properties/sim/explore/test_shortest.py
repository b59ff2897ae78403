"""The shortest way to a planted bug: as few names that go first as can be, and one fault at most."""

from __future__ import annotations

import pytest

from squall.sim.explore.shortest import Shortest, Tried
from squall.sim.explore.worlds import WORLDS
from squall.sim.scenarios.replay import replay
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.mutants.exploring import explorable, explore_mutants
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.search.replay_with_mutant import planted


def tries(worlds: int, most: int) -> list[Tried]:
    searched = Shortest(WORLDS[:worlds], most=most, longer=False)
    with campaign_settings():
        return list(searched.tries(lambda case, names: None))


def test_worlds_have_names_of_their_own() -> None:
    assert len({world.name for world in WORLDS}) == len(WORLDS)


def test_short_ways_come_first_and_nothing_is_wrong_with_them() -> None:
    found = tries(3, 2)
    lengths = [each.length for each in found]
    assert lengths == sorted(lengths) and set(lengths) == {0, 1, 2}
    ways = [(each.case[:3], each.names) for each in found]
    assert len(set(ways)) == len(ways), "no way is tried twice"
    assert not [each for each in found if each.violations]


@pytest.mark.parametrize(
    ("name", "world", "fault", "length"),
    [
        ("reply-before-clean-up", "a pass", False, 0),
        ("context-comes-back-to-life", "a dropped reference", False, 1),
        ("early-fetch-forgotten", "a reference", False, 1),
        ("never-retried", "a call", True, 1),
    ],
)
def test_a_bug_is_found_by_a_shortest_way(name: str, world: str, fault: bool, length: int) -> None:
    (result,) = explore_mutants([MUTANTS[name]], 60.0)
    found = result.found
    assert found is not None and found.shortest
    assert (found.case.world, bool(found.case.fault), found.length) == (world, fault, length)
    scenario = found.scenario(name)
    with campaign_settings(), planted(name):
        seen = [(each.property, each.what) for each in replay(scenario).violations]
    assert (found.violation.property, found.violation.what) in seen
    told = result.to_json()
    assert told["found"] and told["world"] == world and told["bound"] is None


def test_a_bug_that_needs_what_no_order_brings_is_not_found_in_time() -> None:
    (result,) = explore_mutants([MUTANTS["autograd-after-rpc"]], 1.0)
    assert result.found is None and result.problem is None
    assert result.executions > 0


def test_bugs_that_need_nothing_or_other_faults_are_not_explored() -> None:
    chosen = explorable(MUTANTS.values())
    assert all(set(mutant.needs) & set("RTLEXGQ") for mutant in chosen)
    assert not any(mutant.needs in ("P", "K", "O") for mutant in chosen)
