"""Where the workers of a :class:`~squall.sim.stock.cluster.NativeCluster` wait for each other: to begin
together, and to leave the RPC group together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
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
        #: called with those that leave a group together, before they do
        self.on_leave: Callable[[Collection[NativeWorker]], object] | None = None
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
        """Let all leave together once no call of any of them is under way, and those whose group goes on
        without them once no call of theirs is.

        As ``TensorPipeAgent::join`` (tensorpipe_agent.cpp) does: it counts the calls that a worker
        made. A request that nobody waits for any more, its caller having given up, keeps nobody.
        """
        if not self._leaving:
            return
        idle = [each for each in self._leaving if not each.calls]
        if not all(each in idle for each in self._cluster.workers if each.attached):
            idle = [each for each in idle if each.leaves_alone]
            if not idle:
                return
        leaving = {each: self._leaving.pop(each) for each in idle}
        if self.on_leave is not None:
            self._cluster.runtime.call_later(0.0, partial(self.on_leave, leaving))
        for worker, question in leaving.items():
            self._cluster.answer_in_bytes(worker, question, b"")
