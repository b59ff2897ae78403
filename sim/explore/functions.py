"""Python functions as what is explored: one for each worker, or one for worker 0.

    explored = explore(Story(2, main), grain="task")

For tests and notebooks; programs of scenarios are in :mod:`squall.sim.explore.programs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from squall.model.events.run import Violation
from squall.real.rpc.constants import DEFAULT_NUM_WORKER_THREADS
from squall.sim.cluster import Cluster
from squall.sim.explore.state import shown, tables
from squall.sim.explore.target import Ended
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.world.controlled_time import Chooser
from squall.sim.world.deadlock import Deadlock

#: steps of the scheduler that an execution may take
MAX_STEPS = 20_000


class FunctionTarget:
    """Functions that run on the workers of a group that stands, each as the main task of its own.

    ``main``: by rank, or one for worker 0. ``leave``: each worker shuts down, gracefully, when its
    function has returned; otherwise the workers shut down when nothing is under way any more, which
    is not explored. ``check`` may say what is wrong with (what the functions returned, by rank; the
    cluster), a line each. A call has no time limit unless ``rpc_timeout_s`` says one; ``threads`` serve the calls of a worker.
    """

    def __init__(
        self,
        workers: int,
        main: Callable[[], Any] | Mapping[int, Callable[[], Any]],
        *,
        leave: bool = False,
        check: Callable[[dict[int, Any], Cluster], list[str]] | None = None,
        faults: Plan = NO_FAULTS,
        rpc_timeout_s: float = 0.0,
        threads: int = DEFAULT_NUM_WORKER_THREADS,
    ) -> None:
        self.workers = workers
        self._main = main if isinstance(main, Mapping) else {0: main}
        self._leave = leave
        self._check = check
        self._faults = faults
        self._rpc_timeout_s = rpc_timeout_s
        self._threads = threads

    def __call__(self, chooser: Chooser) -> Ended:
        wrong: list[str] = []
        results: dict[int, Any] = {}
        with Cluster(
            self.workers,
            faults=self._faults,
            trace=False,
            own_settings=False,
            skip_handshakes=True,
            rpc_timeout_s=self._rpc_timeout_s,
            num_worker_threads=self._threads,
            max_steps=MAX_STEPS,
            chooser=chooser,
        ) as cluster:
            if not self._leave:
                cluster.idle = frozenset(range(self.workers)) - set(self._main)

            def main(rank: int) -> None:
                function = self._main.get(rank)
                if function is not None:
                    try:
                        results[rank] = function()
                    except Exception as error:
                        results[rank] = error

            try:
                cluster.run(main, shutdown=self._leave, collect=False)
                if not self._leave:
                    cluster.settle()
            except Deadlock as deadlock:
                wrong.append("somebody waits for ever")
                results[-1] = sorted(deadlock.waits)
            except Exception as error:
                wrong.append(f"the run broke off: {shown(error)}")
            if self._check is not None and not wrong:
                wrong += self._check(results, cluster)
            state = f"{shown(dict(sorted(results.items())))} {tables(cluster.workers)} {wrong}"
            if not (self._leave or wrong):
                cluster.shutdown()
        violations = [Violation("story", what, "otherwise", what) for what in wrong]
        return Ended(state, tuple(violations))
