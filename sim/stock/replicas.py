"""Whether replicas agree: what several ranks have of one module is to be equal after each step of an optimizer, and at
each forward pass whose gradients DistributedDataParallel is to exchange.

Ranks tell what they have as digests (sim/stock/replicas_guest.py). Steps are compared by their number;
forward passes by how many collectives their group has begun before, and of several at one such number the
last of each rank: that of the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from squall.sim.scripts.findings import Findings
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.groups import NativeGroups
from squall.sim.stock.rounds import Rounds
from squall.sim.stock.worker import NativeWorker

OUTCOME = "replicas differ"


@dataclass(frozen=True)
class _Told:
    """``digests`` by name; ``own``: the names of what is to be equal now; ``exchange``: the last before."""

    place: str
    at_s: float
    digests: dict[str, int]
    own: tuple[str, ...]
    exchange: str

    def __str__(self) -> str:
        return f"at t={self.at_s:.6f} s" + (f", {self.place}" if self.place else "")


@dataclass
class _Set:
    """What several ranks have alike. ``kind``: of the optimizer whose steps these are; empty: forward passes."""

    kind: str
    what: str
    members: tuple[int, ...]
    rounds: Rounds[_Told]
    #: by rank: the last exchange before it told what was compared last
    exchanges: dict[int, str] = field(default_factory=dict)

    @property
    def exchange(self) -> tuple[str, ...]:
        """The collectives that make it alike."""
        return ("all_reduce",) if self.kind else ("all_reduce", "broadcast")


class Replicas:
    """Answers what sim/stock/replicas_guest.py tells."""

    def __init__(self, cluster: NativeCluster, groups: NativeGroups, findings: Findings) -> None:
        self._now = cluster.runtime.now
        self._groups = groups
        self._findings = findings
        self._sets: dict[tuple[Any, ...], _Set] = {}
        #: of which it has been said that they differ
        self._apart: set[tuple[str, tuple[int, ...]]] = set()
        #: how often ranks were compared
        self.compared = 0
        cluster.answers["replicas"] = self._hear

    def _hear(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        """Raises FoundError for what differs, unless the run is to go on."""
        kind, what, key, rank, members, number, place, digests, own = rest
        same = self._sets.setdefault(
            (kind, what, key, members), _Set(kind, what, members, Rounds(len(members)))
        )
        exchange = self._groups.last_call(rank, members, same.exchange)
        told = _Told(place, self._now(), digests, own, exchange)
        if same.rounds.add(number, rank, worker, told):
            same.exchanges = {}
        for each in same.rounds.complete():
            # Of forward passes one rank may tell again, until it goes on to the next number.
            if kind or each < min(same.rounds.latest.values()):
                self._compare(same, each)

    def _compare(self, same: _Set, number: int) -> None:
        told = same.rounds.take(number)
        self.compared += 1
        before = same.exchanges
        same.exchanges = {rank: each.exchange for rank, each in told.items()}
        own = set[str]().union(*(each.own for each in told.values()))
        names = [name for name in next(iter(told.values())).digests if name in own]
        apart = [name for name in names if len(_alike(told, name)) > 1]
        if not apart or (same.what, same.members) in self._apart:
            return
        self._apart.add((same.what, same.members))
        more = f" (and {len(apart) - 1} more of {len(names)})" if len(apart) > 1 else ""
        when = f"after step {number} of {same.kind}" if same.kind else "at a forward pass"
        who = "; ".join(
            f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} {told[ranks[0]]}"
            for ranks in _alike(told, apart[0])
        )
        last = next(iter(told.values())).exchange
        exchange = f"the last {' or '.join(same.exchange)} among them: {last or 'none'}"
        if last and before == same.exchanges:
            exchange += f", before step {number - 1}"
        text = f"{apart[0]}{more} of {same.what} differs {when}: {who}; {exchange}"
        self._findings.note(OUTCOME, text)


def _alike(told: dict[int, _Told], name: str) -> list[list[int]]:
    """The ranks, those that have the same of ``name`` together."""
    found: dict[int, list[int]] = {}
    for rank, each in told.items():
        if name in each.digests:
            found.setdefault(each.digests[name], []).append(rank)
    return list(found.values())
