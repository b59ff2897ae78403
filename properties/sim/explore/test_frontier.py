"""An exploration that is broken off and goes on comes to the same as one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.properties.support.explored import saved
from squall.sim.explore.campaign import parts
from squall.sim.explore.counterexample import plain
from squall.sim.explore.execution import How
from squall.sim.explore.frontier import FrontierError, read_frontier, write_frontier
from squall.sim.explore.search import Budget
from squall.sim.explore.tree import Explored

UNORDERED = How("message", ordered=False)


def counts(explored: Explored) -> tuple[object, ...]:
    return (
        explored.complete,
        explored.pruned,
        explored.classes,
        explored.states,
        explored.exhausted,
    )


def test_parts_of_an_exploration_add_up_to_the_whole(tmp_path: Path) -> None:
    scenario = plain(saved("small"))
    (whole,) = parts(scenario, UNORDERED, Budget())
    assert whole.explored.exhausted and whole.explored.complete > 100
    file = tmp_path / "frontier.json"
    since: Explored | None = None
    for _ in range(20):
        (part,) = parts(scenario, UNORDERED, Budget(executions=30), since=since)
        if part.explored.exhausted:
            break
        write_frontier(file, scenario, UNORDERED, part.since)
        since = read_frontier(file, scenario, UNORDERED)
    assert counts(part.explored) == counts(whole.explored)


def test_what_was_explored_of_something_else_is_refused(tmp_path: Path) -> None:
    scenario, other = plain(saved("small")), plain(saved("plain"))
    (part,) = parts(scenario, UNORDERED, Budget(executions=3))
    file = tmp_path / "frontier.json"
    write_frontier(file, scenario, UNORDERED, part.since)
    with pytest.raises(FrontierError, match="another scenario"):
        read_frontier(file, other, UNORDERED)
    with pytest.raises(FrontierError, match="--grain message, or ordered otherwise"):
        read_frontier(file, scenario, How("task"))
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(FrontierError, match="no exploration"):
        read_frontier(file, scenario, UNORDERED)
