"""Small programs of two and three workers in every order, with their numbers of classes.

The numbers are fingerprints of the protocol: they change when it does. Without the order of
connections, those of the grain ``message`` are the numbers of orders in which messages can arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from squall.properties.support import explored as programs
from squall.sim.explore.execution import How
from squall.sim.explore.functions import FunctionTarget
from squall.sim.explore.search import Budget, explore
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.world.controlled_time import GrainError

UNORDERED = How("message", ordered=False)

WORLDS: dict[str, tuple[int, Callable[[], Any], Any]] = {
    "two calls at once": (2, programs.calls(2), [0, 1]),
    "three calls at once": (2, programs.calls(3), [0, 1, 2]),
    "remote, to_here, drop": (2, programs.remote, "a value"),
    "call, backward, release": (2, programs.call_with_autograd, 2.0),
    "a shared reference": (3, programs.shared_reference, "a value"),
    "a diamond": (3, programs.diamond, 3.0),
}


def story(world: str) -> FunctionTarget:
    workers, main, expected = WORLDS[world]
    return FunctionTarget(
        workers, main, check=lambda got, _: [] if got == {0: expected} else [str(got)]
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("world", "classes"),
    [
        ("two calls at once", 4),
        ("three calls at once", 36),
        ("remote, to_here, drop", 4),
        ("call, backward, release", 2),
        ("a shared reference", 150),
        ("a diamond", 288),
    ],
)
def test_every_order_of_messages_comes_to_the_same(world: str, classes: int) -> None:
    with campaign_settings():
        explored = explore(story(world), UNORDERED)
    assert explored.exhausted
    assert (explored.complete, explored.pruned) == (classes, 0)
    assert len(explored.classes) == classes
    assert len(explored.states) == 1
    assert not explored.found


@pytest.mark.parametrize(
    ("world", "classes"),
    [("two calls at once", 1), ("three calls at once", 1), ("call, backward, release", 2)],
)
def test_connections_that_keep_their_order_leave_fewer(world: str, classes: int) -> None:
    with campaign_settings():
        explored = explore(story(world), How("message"))
    assert (explored.complete, explored.pruned) == (classes, 0)


@pytest.mark.parametrize(
    ("world", "by_worker", "by_delivery"),
    [
        ("two calls at once", 60, 6),
        ("remote, to_here, drop", 60, 6),
        ("call, backward, release", 36, 6),
    ],
)
def test_every_order_of_tasks_comes_to_the_same(
    world: str, by_worker: int, by_delivery: int
) -> None:
    """What is independent at the level of workers is so at that of deliveries: fewer classes."""
    with campaign_settings():
        coarse = explore(story(world), How("task", ordered=False, dependence="worker"))
        fine = explore(story(world), How("task", ordered=False))
    assert (coarse.complete, coarse.pruned) == (by_worker, 0)
    assert (fine.complete, fine.pruned) == (by_delivery, 0)
    assert coarse.states.keys() == fine.states.keys()
    assert len(fine.states) == 1
    assert not coarse.found and not fine.found


def test_three_calls_at_once_have_78_orders_of_tasks() -> None:
    with campaign_settings():
        explored = explore(story("three calls at once"), How("task", ordered=False))
    assert (explored.complete, explored.pruned, len(explored.states)) == (78, 0, 1)


@pytest.mark.parametrize(("calls", "classes"), [(1, 2), (2, 620)])
def test_tasks_make_way_at_each_scheduling_point(calls: int, classes: int) -> None:
    """As threads may: where they take a lock, start a task, or look at an event."""
    with campaign_settings():
        explored = explore(FunctionTarget(2, programs.calls(calls)), How("fine"))
    assert explored.exhausted and not explored.found
    assert (explored.complete, explored.pruned, len(explored.states)) == (classes, 0, 1)


def test_a_search_that_is_not_over_says_about_how_much_is_left() -> None:
    with campaign_settings():
        explored = explore(story("a diamond"), UNORDERED, budget=Budget(executions=100))
    assert not explored.exhausted
    assert explored.executions == 100
    assert 20 < explored.left < 2000  # there are 188 more


def test_the_grain_of_messages_is_refused_where_workers_meet() -> None:
    """The barrier of a graceful shutdown wakes tasks of other workers."""
    with campaign_settings(), pytest.raises(GrainError, match="the store"):
        explore(FunctionTarget(2, programs.remote, leave=True), How("message"))


def test_full_pools_of_threads_are_noticed() -> None:
    """With one thread a request waits for another one: which comes first makes a difference."""
    with campaign_settings():
        roomy = explore(FunctionTarget(2, programs.calls(2)), How("task", ordered=False))
        tight = explore(FunctionTarget(2, programs.calls(2), threads=1), How("task", ordered=False))
    assert roomy.complete == 6
    assert tight.complete > 6
    assert tight.exhausted and len(tight.states) == 1
