"""How far a campaign is: what its page shows, read from its store."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from sqlalchemy import func, select

from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.reading import Reading
from squall.sim.campaigns.tables import LEASE, WORK

#: real seconds that count as lately: for the speed of a worker, and for whether anybody is at work
LATELY_S = 300.0
#: points of the curve of speed, at most
_POINTS = 120


@dataclass(frozen=True)
class PartStatus:
    """``says``: its seeds, faults and engine. ``facts``: kinds of behaviour seen so far."""

    name: str
    says: str
    scenarios: int
    judged: int
    failed: int
    facts: int = 0
    reached: int = 0
    situations: int = 0


@dataclass(frozen=True)
class WorkerStatus:
    """``last``: when a lease of it was last complete, in seconds since 1970. ``per_second``: scenarios
    of one real second, over its last leases."""

    host: str
    name: str
    leases: int
    scenarios: int
    per_second: float
    last: float


@dataclass(frozen=True)
class KindStatus:
    """A kind of failure, its first scenario, and how many have shown it. ``again``: the command that
    shows it again. ``notes``: what triage has found out."""

    property: str
    what: str
    part: str
    seed: int
    text: str
    scenarios: int
    again: str | None
    notes: tuple[str, ...] = ()
    run: str | None = None


@dataclass(frozen=True)
class CanaryStatus:
    """A planted bug, and in which scenario of its range it was noticed; None: in none, so far."""

    name: str
    noticed: int | None
    judged: bool


@dataclass(frozen=True)
class Status:
    """``speed``: pairs of a time in seconds since 1970 and the scenarios of a second then."""

    store: str
    said: dict[str, str]
    began: float | None
    last: float | None
    parts: tuple[PartStatus, ...]
    workers: tuple[WorkerStatus, ...]
    kinds: tuple[KindStatus, ...]
    canaries: tuple[CanaryStatus, ...]
    speed: tuple[tuple[float, float], ...]

    @property
    def at_work(self) -> bool:
        """Whether somebody has ended a lease lately."""
        return bool(self.workers)

    @property
    def ended(self) -> bool:
        return self.judged == self.scenarios

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(sorted({worker.host for worker in self.workers}))

    @property
    def scenarios(self) -> int:
        return sum(part.scenarios for part in self.parts)

    @property
    def judged(self) -> int:
        return sum(part.judged for part in self.parts)

    @property
    def failed(self) -> int:
        return sum(part.failed for part in self.parts)

    @property
    def per_second(self) -> float:
        """Of the latest time that is known."""
        return self.speed[-1][1] if self.speed else 0.0

    @property
    def silent_canaries(self) -> tuple[str, ...]:
        """Planted bugs that were not noticed: such a campaign proves nothing."""
        return tuple(each.name for each in self.canaries if each.judged and each.noticed is None)

    @property
    def outcome(self) -> str:
        if self.silent_canaries:
            return "blind"
        if self.kinds:
            return "failed"
        return "ok" if self.judged == self.scenarios else "incomplete"

    def to_json(self) -> str:
        told = {**asdict(self), "outcome": self.outcome, "silent_canaries": self.silent_canaries}
        return json.dumps(told, allow_nan=False)


def status_of(store: Reading, now: float | None = None) -> Status:
    """What a store says now. ``now``: seconds since 1970. Raises CampaignStoreError."""
    now = time.time() if now is None else now
    judged, failed = store.judged(), store.failed()
    parts = tuple(
        PartStatus(
            part.name,
            str(part).partition(" ")[2],
            len(part.seeds),
            judged.get(part.name, 0),
            failed.get(part.name, 0),
        )
        for part in Plan.read(store.said).parts
    )
    kinds = tuple(
        KindStatus(kind.property, kind.what, kind.part, kind.seed, kind.text, kind.scenarios, None)
        for kind in store.kinds()
    )
    ((began, last),) = store.ask(
        select(func.min(WORK.c.ended - WORK.c.seconds), func.max(WORK.c.ended))
    )
    return Status(
        store=str(store.file),
        said=store.said,
        began=began,
        last=last,
        parts=parts,
        workers=_workers(store, now),
        kinds=kinds,
        canaries=(),
        speed=() if began is None else _speed(store, began, last),
    )


def _workers(store: Reading, now: float) -> tuple[WorkerStatus, ...]:
    """Those that have ended a lease lately."""
    seeds = func.sum(LEASE.c.stop - LEASE.c.first)
    columns = (WORK.c.host, WORK.c.worker)
    its = (LEASE.c.part == WORK.c.part) & (LEASE.c.first == WORK.c.first)
    of_each = (
        select(
            *columns,
            func.count(),
            seeds,
            func.min(WORK.c.ended - WORK.c.seconds),
            func.max(WORK.c.ended),
        )
        .join(LEASE, its)
        .where(WORK.c.ended > now - LATELY_S)
        .group_by(*columns)
        .order_by(*columns)
    )
    return tuple(
        WorkerStatus(host, name, leases, int(count), int(count) / max(last - first, 1e-9), last)
        for host, name, leases, count, first, last in store.ask(of_each)
    )


def _speed(store: Reading, began: float, last: float) -> tuple[tuple[float, float], ...]:
    """By equal spans of time, the scenarios of leases that ended in each."""
    span = max((last - began) / _POINTS, 10.0)
    number = func.floor((WORK.c.ended - began) / span)
    its = (LEASE.c.part == WORK.c.part) & (LEASE.c.first == WORK.c.first)
    asked = select(number, func.sum(LEASE.c.stop - LEASE.c.first)).join(LEASE, its).group_by(number)
    counts = {int(at): int(count) for at, count in store.ask(asked)}
    whole = int((last - began) / span)  # the one that is under way would look slow
    return tuple((began + (at + 1) * span, counts.get(at, 0) / span) for at in range(whole))
