"""How fast ``squall explore`` is, how it grows, and how much the reduction saves.

Each execution is checked: what came of it, and that nothing is left. Messages in any order
(grain ``message``, without the order of connections). CPU time of one core, the best of three.
The naive number of orders is the sum, over the classes, of the orders that are in each.

    python -m benchmarks.explore
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from squall.properties.support import explored as programs
from squall.sim.cluster import Cluster
from squall.sim.explore.execution import Execution, How
from squall.sim.explore.functions import FunctionTarget
from squall.sim.explore.order import Order
from squall.sim.explore.search import Budget, explore
from squall.sim.explore.state import tables
from squall.sim.explore.target import Ended
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.world.controlled_time import Chooser

#: by name: workers, what worker 0 does, what must come of it, and the goal in executions a second
WORLDS: dict[str, tuple[int, Callable[[], Any], Any, str]] = {
    "one call": (2, programs.calls(1), [0], "2,250 to 3,000"),
    "two calls at once": (2, programs.calls(2), [0, 1], "2,250 to 3,000"),
    "a reference shared among three": (3, programs.shared_reference, "a value", "1,200 to 1,500"),
    "a diamond with backward": (3, programs.diamond, 3.0, "600 to 750"),
}
#: executions that a rate is taken from
ENOUGH = 400
HOW = How("message", ordered=False)


def story(workers: int, main: Callable[[], Any], expected: Any) -> FunctionTarget:
    def check(got: dict[int, Any], cluster: Cluster) -> list[str]:
        wrong = [] if got == {0: expected} else ["another result"]
        return [*wrong, "something is left"] if any(map(any, tables(cluster.workers))) else wrong

    return FunctionTarget(workers, main, check=check)


def rate(subject: FunctionTarget, *, repeats: int = 3) -> float:
    """Executions a second, of one core."""
    best = 0.0
    for _ in range(repeats):
        done, started = 0, time.process_time()
        while done < ENOUGH:
            explored = explore(subject, HOW, budget=Budget(executions=ENOUGH - done))
            assert not explored.found
            done += explored.executions
        best = max(best, done / (time.process_time() - started))
    return best


def orders(order: Order) -> int:
    """In how many orders the steps of an execution can be that agree with what came before what."""
    before = order.before
    counts = {0: 1}
    for _ in before:
        longer: dict[int, int] = {}
        for done, count in counts.items():
            for step, needed in enumerate(before):
                if not done >> step & 1 and not needed & ~done:
                    more = done | 1 << step
                    longer[more] = longer.get(more, 0) + count
        counts = longer
    (all_of_them,) = counts.values()
    return all_of_them


def reduction(subject: FunctionTarget) -> tuple[int, int]:
    """Executions of the whole exploration, and orders that they stand for."""
    naive = 0

    def counted(chooser: Chooser) -> Ended:
        nonlocal naive
        ended = subject(chooser)
        assert isinstance(chooser, Execution)
        naive += orders(chooser.order)
        return ended

    explored = explore(counted, HOW)
    assert explored.exhausted and not explored.found
    return explored.executions, naive


if __name__ == "__main__":
    with campaign_settings():
        for name, (workers, main, expected, goal) in WORLDS.items():
            subject = story(workers, main, expected)
            executions, naive = reduction(subject)
            print(
                f"{name}: {rate(subject):,.0f} executions a second (goal: {goal}), {executions:,} "
                f"executions for {naive:,} orders ({naive / executions:,.1f} each)",
                flush=True,
            )
        for calls in range(1, 5):
            subject = story(2, programs.calls(calls), list(range(calls)))
            executions, naive = reduction(subject)
            print(
                f"{2 * calls} messages ({calls} calls at once): {executions:,} executions, "
                f"{naive:,} orders ({naive / executions:,.1f} each), "
                f"{rate(subject, repeats=1):,.0f} executions a second",
                flush=True,
            )
