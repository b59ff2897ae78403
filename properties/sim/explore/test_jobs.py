"""Processes that share an exploration come to what one alone comes to, choice for choice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from squall.properties.sim.explore.test_join import chain
from squall.properties.sim.explore.test_worlds import story
from squall.properties.support.explored import saved
from squall.sim.explore.campaign import parts
from squall.sim.explore.counterexample import plain
from squall.sim.explore.execution import How
from squall.sim.explore.frontier import read_frontier, write_frontier
from squall.sim.explore.search import Budget, explore
from squall.sim.explore.target import Subject
from squall.sim.explore.tree import Explored
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.mutants.registry import MUTANTS

WORLDS: dict[str, tuple[Callable[[], Subject], How, tuple[int, int]]] = {
    "a shared reference": (
        lambda: story("a shared reference"),
        How("task", ordered=False),
        (1380, 0),
    ),
    "the end of a group": (
        lambda: chain(3),
        How("task", ordered=False, dependence="worker"),
        (2201, 59),
    ),
}


def everything(explored: Explored) -> dict[str, Any]:
    """All that it says, but for times and what is to be done."""
    told = dict(vars(explored))
    del told["seconds"], told["frontier"]
    told["found"] = [
        (*key, found.choices, found.executions) for key, found in told["found"].items()
    ]
    return told


@pytest.mark.parametrize("world", WORLDS)
def test_two_processes_come_to_what_one_comes_to(world: str) -> None:
    make, how, counts = WORLDS[world]
    with campaign_settings():
        one = explore(make(), how)
        two = explore(make(), how, jobs=2)
        three = explore(make(), how, jobs=3)
    assert (one.complete, one.pruned) == counts
    assert one.exhausted
    assert everything(two) == everything(one)
    assert everything(three) == everything(one)


def test_what_fails_is_found_by_the_same_execution() -> None:
    with campaign_settings(), MUTANTS["join-counts-once"].apply():
        one = explore(chain(3), How("task"))
        two = explore(chain(3), How("task"), jobs=2)
    assert one.failed
    assert everything(two) == everything(one)


def test_the_budget_is_that_of_all_processes() -> None:
    with campaign_settings():
        whole = explore(
            story("a shared reference"),
            How("task", ordered=False),
            budget=Budget(executions=600),
            jobs=2,
        )
    assert not whole.exhausted
    done = whole.with_all_ahead()
    assert 600 <= done.executions < 600 + 100
    assert done.executions > whole.executions, "the other process has done some of them"


def test_what_others_have_done_is_kept_with_an_exploration_that_goes_on(tmp_path: Path) -> None:
    """Broken off twice, with two processes and with three, and finished by one alone."""
    scenario, how = plain(saved("small")), How("message", ordered=False)
    (whole,) = parts(scenario, how, Budget())
    file = tmp_path / "frontier.json"
    since: Explored | None = None
    for jobs in (2, 3, 1):
        budget = Budget(executions=None if jobs == 1 else 200)
        (part,) = parts(scenario, how, budget, since=since, jobs=jobs)
        write_frontier(file, scenario, how, part.since)
        since = read_frontier(file, scenario, how)
    assert part.explored.exhausted
    assert everything(part.explored) == everything(whole.explored)


def test_an_interrupt_loses_nothing() -> None:
    scenario, how = plain(saved("small")), How("message", ordered=False)
    (whole,) = parts(scenario, how, Budget())

    def interrupt(explored: Explored) -> None:
        if explored.executions == 150:
            os.kill(os.getpid(), signal.SIGINT)

    (begun,) = parts(scenario, how, Budget(), jobs=2, on_execution=interrupt)
    assert begun.explored.interrupted and not begun.explored.exhausted
    assert begun.explored.executions >= 150
    (ended,) = parts(scenario, how, Budget(), since=begun.since)
    assert everything(ended.explored) == everything(whole.explored)


def test_the_naive_search_is_shared_too() -> None:
    with campaign_settings():
        one = explore(story("call, backward, release"), How("task", ordered=False), reduced=False)
        two = explore(
            story("call, backward, release"), How("task", ordered=False), reduced=False, jobs=2
        )
    assert one.complete == 225
    assert everything(two) == everything(one)
