"""The processes of the engine ``torch`` as a fault plan knows them: by their ranks."""

from __future__ import annotations

from typing import Any, Protocol, cast

from squall.real.worker import Worker
from squall.sim.faults.file import check_group
from squall.sim.faults.injector import FaultInjector
from squall.sim.faults.plan import Plan
from squall.sim.stock.plan import supported
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.network import Network
from squall.sim.world.processes import processes_of
from squall.sim.world.scheduler import SimRuntime


class Cluster(Protocol):
    """The processes, and what they are connected by."""

    runtime: SimRuntime
    network: Network
    ranks: dict[int, NativeWorker]

    def crash(self, worker: NativeWorker, *, silent: bool) -> None: ...

    def call(self, worker: NativeWorker, *question: Any) -> Any: ...


class NativeHost:
    """For :class:`~squall.sim.faults.injector.FaultInjector`, which begin when the first group stands.

    A rank is that of the RPC group, or, of a process that is in none, that of its first process group.
    """

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self._cluster = cluster
        self._plan = plan
        #: those that are in no RPC group, and the rank of each that has been
        self.members: dict[int, NativeWorker] = {}
        self._ranks: dict[NativeWorker, int] = {}
        self._prepared: set[tuple[NativeWorker, int]] = set()
        self._begun = False
        possible = supported(plan)
        self.faults = FaultInjector(possible, cluster.network, self) if len(possible) else None
        if plan.begin == "launch":
            self.begin()

    def joined(self, worker: NativeWorker, rank: int, size: int) -> None:
        """A process has come to a group of ``size`` as this rank of it. Raises RankError if the first group
        lacks a worker that the plan names."""
        if not self._begun:
            check_group(self._plan, size)
        before = self.members.get(rank)
        if self.rank(worker) is None and (before is None or not before.alive):
            self.members[rank], self._ranks[worker] = worker, rank
            worker.id = rank
        known = self.rank(worker)
        if self.faults is not None and known is not None and (worker, known) not in self._prepared:
            self._prepared.add((worker, known))
            self.faults.prepare(known, cast(Worker, worker))

    def rank(self, worker: NativeWorker) -> int | None:
        """None: it has come to no group."""
        return worker.rank if worker.rank >= 0 else self._ranks.get(worker)

    def begin(self) -> None:
        """The first group stands."""
        if not self._begun and self.faults is not None:
            self.faults.begin()
        self._begun = True

    def start_delay_s(self, rank: int) -> float:
        """How much later than others the process of a rank starts, in seconds."""
        return 0.0 if self.faults is None else self.faults.start_delay_s(rank)

    # -- faults.Host ------------------------------------------------------------------------

    def worker(self, rank: int) -> Worker | None:
        return cast("Worker | None", self._process(rank))

    def _process(self, rank: int) -> NativeWorker | None:
        return self._cluster.ranks.get(rank) or self.members.get(rank)

    def crash(self, rank: int, *, silent: bool) -> bool:
        """End the process, by SIGKILL."""
        worker = self._process(rank)
        if worker is None or not worker.alive:
            return False
        self._cluster.crash(worker, silent=silent)
        processes_of(self._cluster.runtime).kill(cast(Worker, worker))
        return True

    def restart(self, rank: int) -> None:
        raise NotImplementedError("workers of the engine torch are not restarted")

    def shutdown_worker(self, rank: int, *, graceful: bool) -> None:
        raise NotImplementedError("workers of the engine torch are not shut down by a fault")

    def collect_garbage(self, rank: int) -> None:
        worker = self._process(rank)
        if worker is not None and worker.alive:
            self._cluster.call(worker, "collect")
