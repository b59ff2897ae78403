"""Sums over a store for whoever watches a campaign: who is at work, how fast, and what was seen."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func, select

from squall.model.coverage.behaviour import SETS, set_of
from squall.sim.campaigns.reading import Reading
from squall.sim.campaigns.tables import FACT, LEASE, SHARE, SITUATION

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


class Driver(NamedTuple):
    """Whoever was the last to begin with the share ``number`` of ``of``. ``began``: seconds since
    1970."""

    number: int
    of: int
    host: str
    pid: int
    began: float


def leases(store: Reading) -> int:
    """How many are judged."""
    return int(store.ask(select(func.count()).select_from(LEASE))[0][0])


def workers(store: Reading) -> list[WorkerSum]:
    """By host and name. Leases of the first schema name nobody."""
    columns = LEASE.c
    scenarios = func.sum(columns.stop - columns.first)
    sums = (scenarios, func.sum(columns.failed), func.sum(columns.seconds))
    named = select(columns.host, columns.worker, func.count(), *sums, func.max(columns.finished))
    asked = named.where(columns.worker.is_not(None)).group_by(columns.host, columns.worker)
    found = [
        WorkerSum(host, name, leases, int(done), int(failed), seconds, last)
        for host, name, leases, done, failed, seconds, last in store.ask(asked)
    ]
    return sorted(found)


def drivers(store: Reading) -> list[Driver]:
    """By share."""
    columns = SHARE.c
    asked = select(columns.index, columns.of, columns.host, columns.pid, columns.began)
    return sorted(Driver(*row) for row in store.ask(asked))


def finished(store: Reading) -> tuple[float, float] | None:
    """When the first and the last lease were complete, in seconds since 1970."""
    ((first, last),) = store.ask(select(func.min(LEASE.c.finished), func.max(LEASE.c.finished)))
    return None if first is None else (first, last)


def speed(store: Reading, points: int = POINTS) -> list[tuple[float, float]]:
    """Scenarios a second of equal spans of time, each at its end: seconds since 1970."""
    ends = finished(store)
    if ends is None or ends[1] <= ends[0]:
        return []
    first, last = ends
    span = (last - first) / points
    done = func.sum(LEASE.c.stop - LEASE.c.first)
    # down to a whole number; the function floor is not in every SQLite
    number = func.round((LEASE.c.finished - first) / span - 0.5).label("number")
    asked = select(number, done).where(LEASE.c.finished.is_not(None)).group_by(number)
    counts = [0] * points
    for at, scenarios in store.ask(asked):
        counts[min(max(int(at), 0), points - 1)] += int(scenarios)
    return [(first + (at + 1) * span, count / span) for at, count in enumerate(counts)]


def facts(store: Reading) -> dict[str, dict[str, int]]:
    """By part and set (:data:`~squall.model.coverage.behaviour.SETS`), how many facts were seen."""
    found: dict[str, dict[str, int]] = {}
    for part, fact in store.ask(select(FACT.c.part, FACT.c.fact)):
        sets = found.setdefault(part, dict.fromkeys(SETS, 0))
        sets[set_of(fact)] += 1
    return found


def situations(store: Reading) -> dict[str, dict[str, float]]:
    """By part, the rare situations that were reached, and when first."""
    found: dict[str, dict[str, float]] = {}
    for part, name, at in store.ask(select(SITUATION.c.part, SITUATION.c.name, SITUATION.c.at)):
        found.setdefault(part, {})[name] = at
    return found
