"""The end of a group: nobody leaves while a call is under way, in every order of tasks.

A chain of calls that nobody waits for hops between workers while they count what is under way. What
each worker has served when its ``join`` returns must be all that it will ever serve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from squall.real.rpc import api as rpc
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster
from squall.sim.explore.execution import How
from squall.sim.explore.functions import FunctionTarget
from squall.sim.explore.search import Explored, explore
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.mutants.registry import MUTANTS

#: requests that a worker has served, in its own table
_SERVED = "requests of the chain"


def hop(left: int, workers: int) -> None:
    """Count this call, and make the next one to the next worker without waiting for it."""
    worker = current_worker()
    worker.locals[_SERVED] = served() + 1
    if left:
        rpc.rpc_async(f"worker{(worker.id + 1) % workers}", hop, args=(left - 1, workers))


def served() -> int:
    return int(current_worker().locals.get(_SERVED, 0))


def joining(first: Callable[[], object] = lambda: None) -> Callable[[], int]:
    """Do ``first``, then wait for the end of the group: what has been served by then."""

    def main() -> int:
        first()
        agent = current_worker().agent
        assert agent is not None
        agent.join()
        return served()

    return main


def chain(calls: int, workers: int = 2) -> FunctionTarget:
    def begin() -> None:
        if calls:
            rpc.rpc_async("worker1", hop, args=(calls - 1, workers))

    def check(served: dict[int, Any], _: Cluster) -> list[str]:
        ends = [call % workers for call in range(1, calls + 1)]
        right = {rank: ends.count(rank) for rank in range(workers)}
        return [] if served == right else ["join has returned while calls were under way"]

    others = {rank: joining() for rank in range(1, workers)}
    return FunctionTarget(workers, {0: joining(begin), **others}, check=check)


def explored(calls: int, workers: int = 2, **options: Any) -> Explored:
    with campaign_settings():
        return explore(chain(calls, workers), How("task"), **options)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("workers", "calls", "classes", "pruned"),
    [(2, 1, 5, 0), (2, 2, 45, 0), (2, 3, 346, 6), (3, 0, 96, 0), (3, 1, 240, 0), (3, 2, 3632, 4)],
)
def test_join_returns_when_no_call_is_under_way(
    workers: int, calls: int, classes: int, pruned: int
) -> None:
    found = explored(calls, workers)
    assert found.exhausted
    assert not found.found
    assert (found.complete, found.pruned) == (classes, pruned)


def test_all_orders_of_tasks_of_whole_workers_are_right_too() -> None:
    """As many as the prototype had (2,201)."""
    with campaign_settings():
        found = explore(chain(3), How("task", ordered=False, dependence="worker"))
    assert found.exhausted and not found.found
    assert found.complete == 2201


def test_a_graceful_shutdown_waits_for_what_is_under_way() -> None:
    """Both workers leave at once while a call that nobody waits for is on its way."""

    def begin() -> None:
        rpc.rpc_async("worker1", hop, args=(0, 2))

    def check(_: dict[int, Any], cluster: Cluster) -> list[str]:
        times = cluster.workers[1].locals.get(_SERVED, 0)
        return [] if times == 1 else [f"the call was served {times} times"]

    with campaign_settings():
        found = explore(FunctionTarget(2, begin, leave=True, check=check), How("task"))
    assert found.exhausted and not found.found
    assert (found.complete, found.pruned) == (408, 0)


def test_one_round_of_counting_is_not_enough() -> None:
    """Counts that are read at different moments: a sum of zero while a call is under way."""
    with MUTANTS["join-counts-once"].apply():
        assert explored(2).found == {}
        found = explored(3, stop_at_first=True)
    ((_, what),) = found.found
    assert what == "join has returned while calls were under way"
