"""How far a campaign is: what its page shows, read from its store."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from squall.model.coverage.sometimes import situations
from squall.sim.campaigns import overview
from squall.sim.campaigns.reading import Reading
from squall.sim.campaigns.told import told_lines, told_of

#: real seconds without the end of a lease after which a worker counts as gone
LATELY_S = 600.0
_LEASES_OF_A_POINT = 5


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
    of one real second in one lease at a time."""

    host: str
    name: str
    leases: int
    scenarios: int
    per_second: float
    last: float


@dataclass(frozen=True)
class KindStatus:
    """A kind of failure, its first scenario, how many have shown it, and where. ``notes``: what triage has
    found out."""

    property: str
    what: str
    part: str
    seed: int
    text: str
    scenarios: int
    place: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CanaryStatus:
    """A planted bug, and in which of its scenarios it was noticed; None: in none."""

    name: str
    noticed: int | None


@dataclass(frozen=True)
class Status:
    """``speed``: pairs of a time in seconds since 1970 and the scenarios of a second then."""

    store: str
    said: dict[str, str]
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
        return tuple(each.name for each in self.canaries if each.noticed is None)

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
    facts, reached = overview.facts(store), overview.situations(store)
    parts = tuple(
        PartStatus(
            part.name,
            str(part).partition(" ")[2],
            len(part.seeds),
            judged.get(part.name, 0),
            failed.get(part.name, 0),
            sum(facts.get(part.name, {}).values()),
            len(reached.get(part.name, {})),
            len(situations(part.engine)) if part.name in facts else 0,
        )
        for part in store.plan().parts
    )
    found, at_work = store.kinds(), overview.workers(store)
    told = told_of(store, found)
    kinds = tuple(
        KindStatus(
            kind.property,
            kind.what,
            kind.part,
            kind.seed,
            kind.text,
            kind.scenarios,
            kind.place,
            tuple(told_lines(told[kind.key])),
        )
        for kind in found
    )
    return Status(
        store=str(store.file),
        said=store.said,
        parts=parts,
        workers=tuple(
            WorkerStatus(
                each.host, each.name, each.leases, each.scenarios, speed_of(each), each.last
            )
            for each in at_work
            if each.last > now - LATELY_S
        ),
        kinds=kinds,
        canaries=_canaries(store),
        speed=tuple(overview.speed(store, _points(at_work))),
    )


def _points(workers: Sequence[overview.WorkerSum]) -> int:
    """Times of the curve of speed: in each some leases have ended, or it would go up and down."""
    leases = sum(each.leases for each in workers)
    return max(2, min(overview.POINTS, leases // _LEASES_OF_A_POINT))


def speed_of(worker: overview.WorkerSum) -> float:
    """Scenarios of one real second of one of its leases."""
    return worker.scenarios / worker.seconds if worker.seconds else 0.0


def _canaries(store: Reading) -> tuple[CanaryStatus, ...]:
    asked = store.ask("SELECT name, noticed FROM canary ORDER BY part, name")
    return tuple(CanaryStatus(*row) for row in asked)
