"""How far a campaign is: what its page shows, read from its store."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from squall.model.coverage.sometimes import situations
from squall.sim.campaigns.failure_reports import told_lines, told_of
from squall.sim.campaigns.store_reader import FailureKind, Reading

#: real seconds without the end of a lease after which a worker counts as gone
LATELY_S = 600.0
#: times that the curve of speed is drawn through, and leases for each
POINTS, _LEASES_OF_A_POINT = 120, 5


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
    facts, reached = _counted(store, "fact"), _counted(store, "situation")
    parts = tuple(
        PartStatus(
            part.name,
            str(part).partition(" ")[2],
            len(part.seeds),
            judged.get(part.name, 0),
            failed.get(part.name, 0),
            facts.get(part.name, 0),
            reached.get(part.name, 0),
            len(situations(part.engine)) if part.name in facts else 0,
        )
        for part in store.plan().parts
    )
    found, at_work = store.kinds(), workers(store)
    told = told_of(store, found)
    leases = sum(each.leases for each in at_work)
    return Status(
        store=str(store.file),
        said=store.said,
        parts=parts,
        workers=tuple(each for each in at_work if each.last > now - LATELY_S),
        kinds=tuple(_kind(kind, told[kind.key]) for kind in found),
        canaries=tuple(
            CanaryStatus(*row)
            for row in store.ask("SELECT name, noticed FROM canary ORDER BY part, name")
        ),
        # in each point some leases have ended, or the curve would go up and down
        speed=tuple(speed(store, max(2, min(POINTS, leases // _LEASES_OF_A_POINT)))),
    )


def _kind(kind: FailureKind, told: dict[str, Any]) -> KindStatus:
    said = {name: value for name, value in kind._asdict().items() if name != "digest"}
    return KindStatus(**said, notes=tuple(told_lines(told)))


def _counted(store: Reading, table: str) -> dict[str, int]:
    """By part, how many rows there are."""
    return dict(store.ask(f"SELECT part, count(*) FROM {table} GROUP BY part"))


def workers(store: Reading) -> list[WorkerStatus]:
    """All that have ended a lease, by host and name."""
    found = store.ask(
        "SELECT host, worker, count(*), sum(stop - first), "
        "sum(stop - first) / nullif(sum(seconds), 0), max(finished) FROM lease WHERE worker IS NOT NULL GROUP BY host, worker "
        "ORDER BY host, worker"
    )
    return [
        WorkerStatus(host, name, leases, int(done), float(speed or 0), last)
        for host, name, leases, done, speed, last in found
    ]


def speed(store: Reading, points: int = POINTS) -> list[tuple[float, float]]:
    """Scenarios a second of equal spans of time, each at its end: seconds since 1970."""
    ((first, last),) = store.ask("SELECT min(finished), max(finished) FROM lease")
    if first is None or last <= first:
        return []
    span = (last - first) / points
    # down to a whole number; the function floor is not in every SQLite
    asked = store.ask(
        "SELECT round((finished - ?) / ? - 0.5) AS span, sum(stop - first) "
        "FROM lease WHERE finished IS NOT NULL GROUP BY span",
        first,
        span,
    )
    counts = [0] * points
    for at, scenarios in asked:
        counts[min(max(int(at), 0), points - 1)] += int(scenarios)
    return [(first + (at + 1) * span, count / span) for at, count in enumerate(counts)]
