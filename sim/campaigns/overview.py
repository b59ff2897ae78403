"""Sums over a store for whoever watches a campaign: who is at work, how fast, and what was seen."""

from __future__ import annotations

from typing import NamedTuple

from squall.model.coverage.behaviour import SETS, set_of
from squall.sim.campaigns.reading import Reading

#: times that a curve is drawn through
POINTS = 120


class WorkerSum(NamedTuple):
    """What a worker has done. ``seconds``: real ones, over all of its leases. ``last``: when the last
    one was complete, in seconds since 1970."""

    host: str
    name: str
    leases: int
    scenarios: int
    failed: int
    seconds: float
    last: float


def leases(store: Reading) -> int:
    """How many are judged."""
    return int(store.ask("SELECT count(*) FROM lease")[0][0])


def workers(store: Reading) -> list[WorkerSum]:
    """By host and name."""
    found = store.ask(
        "SELECT host, worker, count(*), sum(stop - first), sum(failed), sum(seconds), max(finished) "
        "FROM lease WHERE worker IS NOT NULL GROUP BY host, worker"
    )
    return sorted(
        WorkerSum(host, name, leases, int(done), int(failed), seconds, last)
        for host, name, leases, done, failed, seconds, last in found
    )


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


def facts(store: Reading) -> dict[str, dict[str, int]]:
    """By part and set (:data:`~squall.model.coverage.behaviour.SETS`), how many facts were seen."""
    found: dict[str, dict[str, int]] = {}
    for part, fact in store.ask("SELECT part, fact FROM fact"):
        sets = found.setdefault(part, dict.fromkeys(SETS, 0))
        sets[set_of(fact)] += 1
    return found


def situations(store: Reading) -> dict[str, dict[str, float]]:
    """By part, the rare situations that were reached, and when first."""
    found: dict[str, dict[str, float]] = {}
    for part, name, at in store.ask("SELECT part, name, at FROM situation"):
        found.setdefault(part, {})[name] = at
    return found
