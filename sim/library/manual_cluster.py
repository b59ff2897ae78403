"""A cluster for one test, in which messages and workers do what the test says."""

from __future__ import annotations

from typing import Any

from squall.sim.library import network
from squall.sim.library.run import Function, Run, run


class ClusterByHand:
    """Runs functions on ranks; the rest is for these functions, and does what ``squall.network`` does.

    A test may name it in a function of its own, which finds it in every rank.
    """

    hold = staticmethod(network.hold)
    rule = staticmethod(network.rule)
    in_flight = staticmethod(network.in_flight)
    deliver = staticmethod(network.deliver)
    crash = staticmethod(network.crash)
    pause = staticmethod(network.pause)
    resume = staticmethod(network.resume)
    now = staticmethod(network.now)

    def run(
        self,
        function: Function,
        *,
        workers: int = 3,
        join: str | None = "worker{rank}",
        may_fail: bool = False,
        **options: Any,
    ) -> Run:
        """Run ``function(rank)`` on each of ``workers`` ranks, which have joined a group under their
        names, and give the run.

        ``options`` are those of ``squall.run``. Raises ``squall.Failed`` if something is wrong,
        unless it ``may_fail``: of a rank that was ended by hand its peers may see errors.
        """
        __tracebackhide__ = True
        found = run(function, workers=workers, join=join, **options)
        return found if may_fail else found.raise_if_failed()

    def __reduce__(self) -> tuple[Any, ...]:
        return ClusterByHand, ()
