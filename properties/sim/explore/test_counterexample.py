"""Orders as parts of scenarios: read, written, played again, and made small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from squall.model.program.strict_json import MadeError
from squall.properties.support.explored import saved
from squall.sim.explore.campaign import parts
from squall.sim.explore.counterexample import fewest, single
from squall.sim.explore.execution import How
from squall.sim.explore.programs import ProgramSubject
from squall.sim.explore.search import Budget, explore
from squall.sim.explore.target import Ended
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import dump_scenario, load_scenario
from squall.sim.scenarios.replay import replay
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.replay_with_mutant import planted
from squall.sim.world.controlled_time import Chooser, Entry
from squall.sim.world.schedule import Schedule


def test_what_is_chosen_needs_a_grain_and_no_other_order() -> None:
    with pytest.raises(MadeError, match="expected a grain"):
        Schedule(chosen=(1, 2))
    with pytest.raises(MadeError, match="expected no other one"):
        Schedule(grain="task", order="random")


def test_the_choices_of_an_execution_make_the_same_run_again() -> None:
    """Each final state, and each digest, is that of the execution that the choices are from."""
    scenario = saved("small")
    digests: list[str] = []
    subject = ProgramSubject(scenario)
    subject.on_run = lambda run: digests.append(run.digest)
    with campaign_settings():
        explored = explore(subject, How("task"), budget=Budget(executions=40))
    (choices,) = explored.choices_of.values()
    schedule = Schedule(grain="task", chosen=choices)
    plan = replace(scenario.faults, schedule=schedule)
    chosen = scenario.in_world(faults=plan, latency="0", bandwidth_bytes_per_s=None)
    read = load_scenario(dump_scenario(chosen))
    assert read == chosen
    assert replay(read).digest == digests[0]
    assert digests.count(digests[0]) == 1, "another order is another run"


def test_a_bug_that_few_orders_show_is_found_by_one_exploration() -> None:
    """A fetch has to overtake the creation of its value."""
    name = "early-fetch-forgotten"
    scenario = replace(saved("small"), expected=Expected(mutant=name))
    with planted(name):
        (part,) = parts(scenario, How("message", ordered=False), Budget(executions=1000))
        assert part.explored.exhausted
        assert 0 < part.explored.failed < part.explored.complete / 10
        _, small = next(part.counterexamples())
        what = [(each.property, each.what) for each in replay(small).violations]
    assert (small.expected.property, small.expected.what) in what
    assert len(small.faults.schedule.chosen) == 1, "one name that goes first is the shortest order"
    assert not replay(small).violations, "without the bug that order is right, too"


def test_a_counterexample_has_few_choices_and_what_to_expect() -> None:
    scenario = replace(saved("small"), expected=Expected(mutant="reply-before-clean-up"))
    with planted("reply-before-clean-up"):
        (part,) = parts(scenario, How("task"), Budget(executions=20))
        found, small = next(part.counterexamples())
        again = replay(small)
    assert small.expected.property == found.violation.property
    assert small.expected.digest == again.digest
    assert len(small.faults.schedule.chosen) < len(found.choices)
    assert found.violation.what in [each.what for each in again.violations]


def test_one_name_that_does_alone_takes_the_place_of_several() -> None:
    """What is found of many choices may need several of them, though another one does alone."""

    def subject(order: Chooser) -> Ended:
        first = order.choose([entry(0), entry(1), entry(2)])
        second = order.choose([entry(name) for name in range(3) if name != first.name])
        return Ended(str((first.name, second.name)))

    how = How("task")
    assert list(single(subject, how)) == [(1,), (2,)]


def entry(name: int) -> Entry:
    return Entry(None, 0.0, name, name, 0, False)  # type: ignore[arg-type]


def test_the_fewest_choices_are_those_that_are_needed() -> None:
    assert fewest(tuple(range(40)), lambda left: {3, 17, 38} <= set(left)) == (3, 17, 38)
    assert fewest((1, 2, 3), lambda left: True) == ()
