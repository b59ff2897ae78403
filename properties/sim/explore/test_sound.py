"""Whether what is taken for independent commutes, and whether the reduced search leaves nothing out."""

from __future__ import annotations

import random

import pytest

from squall.model.program.variants import under_faults
from squall.properties.sim.explore.test_worlds import WORLDS
from squall.properties.support.explored import Recorded, saved, shuffled
from squall.sim.explore.counterexample import plain
from squall.sim.explore.dependencies import told
from squall.sim.explore.execution import How
from squall.sim.explore.faults import faults_at, places
from squall.sim.explore.functions import FunctionTarget
from squall.sim.explore.programs import ProgramSubject
from squall.sim.explore.search import explore
from squall.sim.explore.target import Subject
from squall.sim.faults.plan import Drop, Plan
from squall.sim.scenario import Scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.world.controlled_time import Dependence, Grain, NotExplorableError

SMALLEST = ("two calls at once", "remote, to_here, drop", "call, backward, release")


def story(world: str, *, leave: bool = False) -> FunctionTarget:
    workers, main, _ = WORLDS[world]
    return FunctionTarget(workers, main, leave=leave)


def commutes(subject: Subject, grain: Grain, dependence: Dependence, times: int) -> None:
    """Random executions, each put in another order that agrees with what happened before what:
    the same steps can go, and it is the same trace with the same final state."""
    stream = random.Random(7)
    with campaign_settings(), told():
        for _ in range(times):
            first = Recorded(grain, dependence=dependence, stream=stream)
            ended = subject(first)
            again = Recorded(grain, dependence=dependence, names=shuffled(first, stream))
            same = subject(again)
            assert not again.parted, "what could go next was not the same"
            assert again.order.key == first.order.key
            assert same.state == ended.state


@pytest.mark.sampled(3)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("grain", "dependence"), [("message", "worker"), ("task", "worker"), ("task", "delivery")]
)
def test_independent_steps_commute(world: str, grain: Grain, dependence: Dependence) -> None:
    commutes(story(world), grain, dependence, times=40)


@pytest.mark.parametrize("world", SMALLEST)
def test_independent_steps_between_scheduling_points_commute(world: str) -> None:
    commutes(story(world), "fine", "delivery", times=60)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dependence", ["worker", "delivery"])
def test_independent_steps_commute_while_workers_leave(dependence: Dependence) -> None:
    commutes(story("two calls at once", leave=True), "task", dependence, times=150)
    commutes(story("a shared reference", leave=True), "task", dependence, times=80)


@pytest.mark.parametrize("name", ["large", "leaving", "other"])
def test_independent_steps_of_drawn_programs_commute(name: str) -> None:
    commutes(ProgramSubject(saved(name)), "task", "delivery", times=15)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("world", SMALLEST)
@pytest.mark.parametrize("ordered", [True, False])
def test_the_reduced_search_finds_what_every_order_of_messages_shows(
    world: str, ordered: bool
) -> None:
    how = How("message", ordered)
    with campaign_settings():
        reduced, full = explore(story(world), how), explore(story(world), how, reduced=False)
    assert reduced.exhausted and full.exhausted
    assert reduced.classes == full.classes
    assert reduced.states.keys() == full.states.keys()


@pytest.mark.parametrize(
    ("world", "orders"),
    [("two calls at once", 126), ("remote, to_here, drop", 81), ("call, backward, release", 225)],
)
def test_the_reduced_search_finds_what_every_order_of_tasks_shows(world: str, orders: int) -> None:
    how = How("task", ordered=False)
    with campaign_settings():
        reduced, full = explore(story(world), how), explore(story(world), how, reduced=False)
    assert reduced.exhausted and full.exhausted
    assert full.complete == orders
    assert reduced.classes == full.classes
    assert reduced.states.keys() == full.states.keys()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("world", ["a shared reference", "a diamond"])
def test_no_random_order_of_messages_is_left_out(world: str) -> None:
    stream = random.Random(11)
    subject = story(world)
    with campaign_settings():
        explored = explore(subject, How("message", ordered=False))
        with told():
            for _ in range(300):
                recorded = Recorded("message", stream=stream)
                subject(recorded)
                assert recorded.order.key in explored.classes


@pytest.mark.parametrize("name", ["plain", "small", "other"])
def test_independent_steps_commute_under_a_fault(name: str) -> None:
    """With one message lost, doubled or late."""
    program = saved(name).program
    assert program is not None
    scenario = plain(Scenario(work=under_faults(program))).in_world(skip_handshakes=True)
    ended = ProgramSubject(scenario)(Recorded("task", stream=random.Random(name)))
    for place in list(places(ended.sent))[:3]:
        for _, fault in faults_at(place):
            plan = scenario.faults.with_items([fault])
            wrong = ProgramSubject(scenario.in_world(faults=plan))
            commutes(wrong, "task", "delivery", times=2)


def test_what_cannot_be_explored_is_refused() -> None:
    """A story that has a network of its own, and faults that count messages of several links."""
    with campaign_settings(), pytest.raises(NotExplorableError, match="network of its own"):
        explore(ProgramSubject(plain(saved("own_network"))), How("task"))
    plan = Plan(messages=(Drop(types=("RREF_ACK",), nth=(3,)),))
    with pytest.raises(ValueError, match=r"faults.messages\[0\]: expected certain drops"):
        ProgramSubject(saved("small").in_world(faults=plan))
