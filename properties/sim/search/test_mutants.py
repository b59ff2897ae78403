"""Planted bugs: each fits its place and can be taken out again, and some are noticed at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from dataclasses import replace

import pytest

from squall.properties.planted.page import page
from squall.properties.support.paths import DOCS
from squall.sim.scenarios.patch import PatchError, find_function
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import PROFILES
from squall.sim.search.judge import judge
from squall.sim.search.mutants.campaign import run_mutants
from squall.sim.search.mutants.drawn import UNKNOWN, changes, drawn_mutants
from squall.sim.search.mutants.mutant import DRAWN, SCHEDULES, Mutant
from squall.sim.search.mutants.registry import (
    ALL_MUTANTS,
    FAMILIES,
    FAMILIES_OF_GROUPS,
    MUTANTS,
    MUTANTS_OF_GROUPS,
)
from squall.sim.search.mutants.trial import Limits

#: one for each thing that a property looks at; all are noticed within a few scenarios
SAMPLE = {
    "dependency-not-counted": "dependencies",
    "gradients-block-their-thread": "threads",
    "release-only-here": "contexts",
    "delete-not-sent": "rrefs",
    "recv-leaf-not-needed": "progress",
}


def test_every_mutant_has_a_name_of_its_own() -> None:
    planted = [*FAMILIES.values(), *FAMILIES_OF_GROUPS.values()]
    assert len(ALL_MUTANTS) == sum(map(len, planted))
    assert not any(mutant.groups for mutant in MUTANTS.values())
    assert all(mutant.groups for mutant in MUTANTS_OF_GROUPS.values())


@pytest.mark.parametrize("name", ALL_MUTANTS)
def test_a_mutant_fits_its_place_and_leaves_it_as_it_was(name: str) -> None:
    mutant = ALL_MUTANTS[name]
    function = find_function(mutant.place)
    before = function.__code__
    with mutant.apply():
        assert function.__code__ is not before
        assert function.__code__.co_name == before.co_name
    assert function.__code__ is before


def test_mutants_say_what_they_need() -> None:
    for mutant in ALL_MUTANTS.values():
        assert mutant.wrong and mutant.old != mutant.new
        assert set(mutant.needs) <= set(SCHEDULES)


def test_at_least_as_many_of_our_own_as_from_the_history() -> None:
    own = sum(mutant.origin == "own" for mutant in MUTANTS.values())
    assert own >= len(MUTANTS) - own


def test_a_mutant_whose_place_has_changed_is_refused() -> None:
    gone = Mutant(name="gone", place="future:Future.value", old="no such text", new="", wrong="x")
    with pytest.raises(PatchError, match="0 times"), gone.apply():
        pass
    twice = Mutant(name="twice", place="future:Future.value", old="self", new="", wrong="x")
    with pytest.raises(PatchError, match="exactly once"), twice.apply():
        pass
    nowhere = Mutant(name="nowhere", place="future:Future.no", old="a", new="b", wrong="x")
    with pytest.raises(PatchError, match="does not exist"), nowhere.apply():
        pass
    broken = Mutant(
        name="broken", place="future:Future.value", old="return value", new="return (", wrong="x"
    )
    with pytest.raises(PatchError, match="no Python"), broken.apply():
        pass


def test_a_planted_bug_is_noticed_and_gone_afterwards() -> None:
    """The scenarios that fail with the bug hold without it."""
    with campaign_settings():
        with MUTANTS["dependency-not-counted"].apply():
            failing = [seed for seed in range(12) if not judge(seed).ok]
        assert failing
        assert all(judge(seed).ok for seed in failing)


@pytest.mark.deep("tries five of them for as long as it takes")
def test_some_mutants_are_killed() -> None:
    results = run_mutants([MUTANTS[name] for name in SAMPLE], Limits(seconds=30), jobs=2)
    for result in results:
        assert result.problem is None
        assert result.killed, result.mutant.name
        assert SAMPLE[result.mutant.name] in result.properties
        assert json.loads(json.dumps(result.to_json()))["killed"]


def test_a_scenario_that_never_ends_is_contained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squall.sim.search.mutants.campaign.HANG_S", 1.0)
    endless = Mutant(
        name="endless",
        place="rpc.in_flight:InFlight.served_one_less",
        old="self.served -= 1",
        new="while True: pass",
        wrong="the agent counts for ever",
    )
    (result,) = run_mutants([endless], Limits(seconds=20))
    assert result.by == "hang"


def test_a_process_that_dies_is_contained() -> None:
    deadly = Mutant(
        name="deadly",
        place="rpc.in_flight:InFlight.served_one_less",
        old="self.served -= 1",
        new="__import__('os')._exit(9)",
        wrong="the process ends",
    )
    (result,) = run_mutants([deadly], Limits(seconds=20))
    assert result.by == "crash"


def test_a_process_that_somebody_ends_is_no_verdict() -> None:
    """SIGKILL comes from outside: from a person, or from a system that runs out of memory."""
    ended = Mutant(
        name="ended",
        place="rpc.in_flight:InFlight.served_one_less",
        old="self.served -= 1",
        new="__import__('os').kill(__import__('os').getpid(), 9)",
        wrong="somebody ends the process",
    )
    (result,) = run_mutants([ended], Limits(seconds=20))
    assert not result.killed
    assert result.problem is not None and "SIGKILL" in result.problem


def test_a_campaign_over_given_seeds_ends_with_them() -> None:
    harmless = Mutant(
        name="harmless", place="future:Future.value", old="return value", new="return (value)",
        wrong="nothing",
    )  # fmt: skip
    (result,) = run_mutants([harmless], Limits(seeds=range(3)))
    assert not result.killed and result.campaign.scenarios == 3


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_campaigns_and_keeps_what_is_done(stop: signal.Signals) -> None:
    before = multiprocessing.active_children()
    refused = Mutant(name="gone", place="future:Future.value", old="no such", new="", wrong="x")
    others = [MUTANTS[name] for name in SAMPLE]
    (result,) = run_mutants(
        [refused, *others], jobs=2, on_result=lambda result: os.kill(os.getpid(), stop)
    )
    assert result.problem is not None and "0 times" in result.problem
    (result,) = run_mutants(
        others[:3], Limits(seconds=30), jobs=3, on_result=lambda result: os.kill(os.getpid(), stop)
    )
    assert result.killed
    assert multiprocessing.active_children() == before, "no process is left"


def test_the_page_about_them_is_up_to_date() -> None:
    written = (DOCS / "mutants.md").read_text(encoding="utf-8")
    assert written == page(), "python -m squall.properties.planted.page > docs/mutants.md"


def test_drawn_changes_are_the_same_each_time_and_can_be_made() -> None:
    drawn = drawn_mutants(7, 60)
    assert [mutant.name for mutant in drawn_mutants(7, 60)] == [mutant.name for mutant in drawn]
    assert drawn_mutants(7, 5) == drawn[:5] and drawn_mutants(8, 5) != drawn[:5]
    assert len({mutant.place for mutant in drawn}) == 60, "one for a function"
    for mutant in drawn:
        assert mutant.code() != replace(mutant, new=mutant.old).code()
        assert not mutant.expected and Limits().profiles(mutant) == ("", *PROFILES)
        assert mutant.old != mutant.new


def test_no_drawn_change_is_in_what_only_reports() -> None:
    found = list(changes())
    assert len(found) > 2000
    assert not [change for change in found if "emit(" in change.old or "logger" in change.old]


def test_a_drawn_change_is_tried_as_others_are() -> None:
    one = replace(MUTANTS["delete-not-sent"], origin=DRAWN, unseen=UNKNOWN)
    (result,) = run_mutants([one], Limits(seconds=20.0, smaller_s=0.0))
    assert result.campaign.killed and result.problem is None
    assert result.corpus is None, "what it needs is not known, and the corpus is without faults"
