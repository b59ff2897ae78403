"""How processes of a script on the engine ``torch`` come together in RPC groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch.distributed import DistStoreError

from squall.real.rpc.rendezvous import JOIN_TIMEOUT_S, MIXED_GROUP, not_unique
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.faulty_sends import FaultySends
from squall.sim.world.primitives import SimTimer

#: of the backend that fails and delays on purpose: how often a message fails, which do, and which
#: come how many seconds later
Faulty = tuple[int, Sequence[str], Mapping[str, float]]


class Joining:
    """Of one cluster. ``start_others`` is told who is there first, and of how many."""

    def __init__(
        self,
        cluster: NativeCluster,
        start_others: Callable[[NativeWorker, int, int, bool], object],
    ) -> None:
        self._cluster = cluster
        self._start_others = start_others
        #: as ``run.rpc_groups.joined``
        self.joined: list[tuple[int, int, int]] = []
        #: the number of the group that is joined next
        self._group = 0
        #: who has asked to join, and the names by rank
        self._waiting: dict[NativeWorker, int] = {}
        self._names: dict[int, str] = {}
        self._too_late: SimTimer | None = None
        self._faulty: dict[NativeWorker, FaultySends] = {}
        cluster.answers["join"] = self._join

    def _join(
        self,
        worker: NativeWorker,
        question: int,
        name: str,
        rank: int,
        world_size: int | None,
        by_rank: bool,
        faulty: Faulty | None,
    ) -> None:
        """``world_size``: None joins a group that workers join and leave at any time."""
        there = self._there() if world_size is None else self._names
        problem = self._problem(name, rank, world_size, there)
        rule = None
        try:
            rule = None if faulty is None else FaultySends(rank, *faulty)
        except RuntimeError as error:
            problem = error
        if problem is not None:
            self._cluster.answer(worker, question, problem)
            return
        self._judge(worker, rule)
        worker.rank, worker.name, worker.leaves_alone = rank, name, world_size is None
        self.joined.append((len(self._cluster.trace.records), rank, self._group))
        self._cluster.ranks[rank] = worker
        if world_size is None:
            self._cluster.host.joined(worker, rank, max(len(self._cluster.workers), rank + 1))
            self._cluster.host.begin()
            self._cluster.answer(worker, question, {**there, rank: name})
            return
        self._cluster.size = world_size
        self._cluster.host.joined(worker, rank, world_size)
        self._names[rank] = name
        self._waiting[worker] = question
        if self._too_late is None:
            self._too_late = self._cluster.runtime.call_later(
                JOIN_TIMEOUT_S, lambda: self._give_up(world_size)
            )
        self._start_others(worker, rank, world_size, by_rank)
        if len(self._waiting) == world_size:
            names = dict(sorted(self._names.items()))
            self._group += 1
            self._answer(lambda worker: not_unique(names, worker.rank) or names)

    def _there(self) -> dict[int, str]:
        """Who is in the group, if it is one that workers join and leave."""
        return {rank: each.name for rank, each in self._cluster.ranks.items() if each.attached}

    def _problem(
        self, name: str, rank: int, world_size: int | None, there: Mapping[int, str]
    ) -> Exception | None:
        """Why this process cannot join them."""
        others = [each for each in self._cluster.workers if each.attached]
        if any(each.leaves_alone != (world_size is None) for each in others):
            return RuntimeError(MIXED_GROUP)
        if rank in there:
            return RuntimeError(f"rank {rank} has joined this group already")
        # Those of a group of a size find out together, when all are there.
        return not_unique({**there, rank: name}, rank) if world_size is None else None

    def _judge(self, worker: NativeWorker, rule: FaultySends | None) -> None:
        """From now on ``rule`` judges what a worker sends, and that of its last group does not."""
        network, before = self._cluster.network, self._faulty.pop(worker, None)
        if before is not None:
            network.remove_rule(before)
        if rule is not None:
            network.add_rule(rule)
            self._faulty[worker] = rule

    def _give_up(self, world_size: int) -> None:
        """As the store of real processes, which waits for half an hour."""
        error = DistStoreError(
            f"Timed out after {int(JOIN_TIMEOUT_S) + 1} seconds waiting for clients. "
            f"{len(self._waiting)}/{world_size} clients joined."
        )
        self._answer(lambda _: error)

    def _answer(self, answer: Callable[[NativeWorker], Mapping[int, str] | Exception]) -> None:
        waiting, self._waiting = self._waiting, {}
        self._names = {}
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None
        for worker, question in waiting.items():
            self._cluster.answer(worker, question, answer(worker))
