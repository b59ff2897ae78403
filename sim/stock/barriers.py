"""Where the workers of a :class:`~squall.sim.stock.cluster.NativeCluster` wait for each other: to begin
together, and to leave the RPC group together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from squall.sim.stock.host import NativeHost
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.scheduler import SimRuntime


class Cluster(Protocol):
    """The processes, and how they are answered."""

    size: int
    host: NativeHost
    runtime: SimRuntime
    workers: list[NativeWorker]

    def answer(self, worker: NativeWorker, question: int, value: Any) -> None: ...

    def answer_in_bytes(self, worker: NativeWorker, question: int, data: bytes) -> None: ...


class Barriers:
    """Of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: called when all leave the group together, before they do
        self.on_leave: Callable[[], object] | None = None
        self._waiting: dict[str, list[tuple[NativeWorker, int]]] = {}
        self._leaving: dict[NativeWorker, int] = {}

    def barrier(self, worker: NativeWorker, question: int, name: str) -> None:
        """Answer all once all have come. At ``init`` the workload, and so the plan, begins."""
        waiting = self._waiting.setdefault(name, [])
        waiting.append((worker, question))
        if len(waiting) == self._cluster.size:
            del self._waiting[name]
            if name == "init":
                self._cluster.host.begin()
            for each, number in waiting:
                self._cluster.answer(each, number, None)

    def leave(self, worker: NativeWorker, question: int) -> None:
        """A worker would leave: it is answered when it may."""
        self._leaving[worker] = question

    def try_leave(self) -> None:
        """Let all leave together once no call of any of them is under way.

        As ``TensorPipeAgent::join`` (tensorpipe_agent.cpp) does: it counts the calls that a worker
        made. A request that nobody waits for any more, its caller having given up, keeps nobody.
        """
        if not self._leaving:
            return
        attached = [worker for worker in self._cluster.workers if worker.attached]
        if all(each in self._leaving and not each.calls for each in attached):
            leaving, self._leaving = self._leaving, {}
            if self.on_leave is not None:
                self._cluster.runtime.call_later(0.0, self.on_leave)
            for worker, question in leaving.items():
                self._cluster.answer_in_bytes(worker, question, b"")
