"""Planted bugs that few orders of messages show fall in one exploration of a small program."""

from __future__ import annotations

from typing import Any

import pytest

from squall.properties.support import explored as programs
from squall.sim.cluster import Cluster
from squall.sim.explore.execution import How
from squall.sim.explore.functions import FunctionTarget
from squall.sim.explore.search import explore
from squall.sim.explore.state import tables
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.mutants.registry import MUTANTS


def check(got: dict[int, Any], cluster: Cluster) -> list[str]:
    wrong = [] if got == {0: "a value"} else ["another result"]
    return [*wrong, "something is left"] if any(map(any, tables(cluster.workers))) else wrong


@pytest.mark.parametrize(
    ("mutant", "executions"),
    [("accepted-before-known", 29), ("parent-not-kept", 45), ("early-fetch-forgotten", 109)],
)
def test_it_falls_after_so_many_executions(mutant: str, executions: int) -> None:
    story = FunctionTarget(3, programs.shared_reference, check=check)
    with campaign_settings(), MUTANTS[mutant].apply():
        explored = explore(story, How("message", ordered=False), stop_at_first=True)
    assert explored.found
    assert explored.executions == executions
