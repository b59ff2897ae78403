"""A worker whose process ends: at every place, in every order."""

from __future__ import annotations

import pytest

from squall.properties.support.explored import saved
from squall.sim.explore.campaign import for_faults, parts, with_one_fault
from squall.sim.explore.counterexample import plain
from squall.sim.explore.execution import How
from squall.sim.explore.faults import check_explorable, kind_of
from squall.sim.explore.search import Budget
from squall.sim.explore.tree import Explored
from squall.sim.faults.moments import Moment
from squall.sim.faults.plan import Crash, Plan


@pytest.mark.parametrize(("rank", "classes", "states"), [(0, 43, 4), (1, 43, 3)])
def test_a_worker_ends_between_any_two_steps(rank: int, classes: int, states: int) -> None:
    scenario = for_faults(plain(saved("small")))
    scenario = scenario.in_world(faults=Plan(workers=(Crash(worker=rank),)))
    (part,) = parts(scenario, How("message"), Budget())
    assert part.explored.exhausted and not part.explored.found
    assert (part.explored.complete, part.explored.pruned) == (classes, 0)
    assert len(part.explored.states) == states


def test_a_fault_strikes_each_message_and_each_worker() -> None:
    scenario = plain(saved("small"))
    sent = Explored(sent={("RREF_ACK", 0, 1): 2})
    kinds = [kind_of(words) for words, _ in with_one_fault(scenario, sent)]
    of_a_message = ["lost", "doubled", "1.2 s late", "61 s late", "70 s late", "fails"]
    assert kinds == [*of_a_message, *of_a_message, "ends", "ends"]


def test_an_end_with_a_time_cannot_be_explored() -> None:
    check_explorable(Plan(workers=(Crash(worker=0),)))
    for crash in (
        Crash(worker=0, at_s=1.0),
        Crash(worker=0, restart_after_s=1.0),
        Crash(worker=0, moment=Moment(event="call_started")),
    ):
        with pytest.raises(ValueError, match="or a crash without a time"):
            check_explorable(Plan(workers=(crash,)))
