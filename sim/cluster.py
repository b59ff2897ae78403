"""N workers on one simulated network: what tests, benchmarks and notebooks start from.

with Cluster(2, seed=7, latency="lognormal:0.001:0.5") as cluster:
    results = cluster.run(main)        # main(rank) on every worker, between init and shutdown
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from real.rpc import api, options
from real.rpc.constants import DEFAULT_NUM_WORKER_THREADS, DEFAULT_RPC_TIMEOUT_S
from real.tracing import NULL_TRACER, TABLES_COUNTED, Observer
from real.worker import Worker
from sim.compat.isolation import TorchIsolation
from sim.garbage import collect, deterministic_garbage
from sim.latency import LatencyModel
from sim.network import Network
from sim.scheduler import Order, SimRuntime
from sim.stuck import Deadlock, explain
from sim.trace import Trace


class Cluster:
    """Workers ``worker0`` … ``worker{n-1}`` of one RPC group, in virtual time.

    ``trace`` False keeps no events. Raises :class:`Deadlock` from :meth:`run` when nothing can
    happen any more and somebody still waits.
    """

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        latency: LatencyModel | str = "0",
        bandwidth_bytes_per_s: float | None = None,
        order: Order = "fifo",
        trace: bool = True,
        observer: Observer | None = None,
        num_worker_threads: int = DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout_s: float = DEFAULT_RPC_TIMEOUT_S,
        max_steps: int | None = None,
    ) -> None:
        self.size = workers
        self._isolation = TorchIsolation()
        self.runtime = SimRuntime(seed=seed, order=order, isolation=self._isolation)
        self.runtime.max_steps = max_steps
        self.trace = Trace(observer=observer)
        tracer = self.trace.tracer(self.runtime) if trace else NULL_TRACER
        self.runtime.tracer = tracer
        self.network = Network(
            self.runtime,
            latency=latency,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
            tracer=tracer,
        )
        self.workers: list[Worker] = []
        for rank in range(workers):
            worker = Worker(self.runtime, self.network, name=f"worker{rank}")
            if trace:
                worker.tracer = self.trace.tracer(self.runtime, worker)
            self.workers.append(worker)
        self.rpc_timeout_s = rpc_timeout_s
        self.num_worker_threads = num_worker_threads
        self._open = ExitStack()

    def __enter__(self) -> Cluster:
        self._open.enter_context(deterministic_garbage())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.runtime.close()
        self._isolation.close()
        self._open.close()

    def init_rpc(self, rank: int) -> None:
        """Join the group as worker ``rank``; for a task of that worker."""
        api.init_rpc(
            f"worker{rank}",
            rank=rank,
            world_size=self.size,
            rpc_backend_options=options.TensorPipeRpcBackendOptions(
                num_worker_threads=self.num_worker_threads,
                rpc_timeout=self.rpc_timeout_s,
                init_method="sim://cluster",
            ),
        )

    def run(
        self, main: Callable[[int], Any] | Sequence[Callable[[], Any]], *, shutdown: bool = True
    ) -> list[Any]:
        """Run ``main(rank)`` on every worker (or ``main[rank]()``) and give what each returned.

        Raises the first worker's error if any raised.
        """
        results: list[Any] = [None] * self.size
        errors: dict[int, BaseException] = {}
        finished: list[int] = []

        def process(rank: int) -> None:
            try:
                self.init_rpc(rank)
                if callable(main):
                    results[rank] = main(rank)
                elif rank < len(main):
                    results[rank] = main[rank]()
                finished.append(rank)
                if shutdown and len(finished) == self.size:
                    collect()  # what the workers dropped in cycles is theirs no more
                if shutdown:
                    api.shutdown()
            except Exception as error:
                errors[rank] = error
                if self.workers[rank].agent is not None:
                    api.shutdown(graceful=False)

        for rank, worker in enumerate(self.workers):
            self.runtime.spawn(process, rank, name="main", worker=worker, daemon=False)
        self.runtime.run()
        if errors:
            raise errors[min(errors)]
        if self.runtime.foreground:
            raise Deadlock(explain(self.runtime))
        return results

    def settle(self) -> None:
        """Let everything end that is under way, after a :meth:`run` without shutdown, and count
        what the workers' tables hold then: nothing, unless somebody keeps a reference."""
        self.runtime.run()
        collect()  # what the workers dropped in cycles is theirs no more
        self.runtime.run()
        for worker in self.workers:
            rrefs, container, engine = worker.rref_context, worker.container, worker.engine
            if rrefs is None or container is None or engine is None or not worker.tracer.enabled:
                continue
            users = [user for user in list(rrefs.confirmed_users.values()) if user() is not None]
            worker.tracer.emit(
                TABLES_COUNTED,
                len(rrefs.owners),
                sum(len(forks) for forks in rrefs.forks.values()),
                len(rrefs.pending_users),
                len(rrefs.pending_children),
                len(rrefs.pending_owners),
                len(users),
                container.num_autograd_contexts(),
                engine.num_backward_passes(),
            )

    def shutdown(self) -> None:
        """Shut RPC down on every worker, gracefully. Raises :class:`Deadlock`."""
        for worker in self.workers:
            self.runtime.spawn(api.shutdown, name="shutdown", worker=worker, daemon=False)
        self.runtime.run()
        if self.runtime.foreground:
            raise Deadlock(explain(self.runtime))
