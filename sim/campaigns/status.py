"""How far a campaign is: what its page shows, read from its store."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


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
