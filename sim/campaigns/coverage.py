"""Which behaviour a part of a campaign has shown, and when, as its store has it."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from squall.model.coverage.behaviour import SETS, set_of
from squall.model.coverage.history import History, points
from squall.model.coverage.sometimes import situations
from squall.sim.campaigns.reading import Reading


def history_in(store: Reading, name: str) -> History | None:
    """The history of a part; None if there is no such part. Leases of several workers end in an
    order of their own, so the numbers of scenarios are those of one run of the campaign. Raises
    CampaignStoreError."""
    part = next((part for part in store.plan().parts if part.name == name), None)
    if part is None:
        return None
    judged = _JudgedBy(store, name)
    firsts: dict[str, list[int]] = {name: [] for name in SETS}
    for fact, at in store.ask("SELECT fact, at FROM fact WHERE part = ?", name):
        firsts[set_of(fact)].append(judged.by(at))
    for each in firsts.values():
        each.sort()
    asked = store.ask("SELECT name, at FROM situation WHERE part = ?", name)
    reached = {situation: judged.by(at) for situation, at in asked}
    names = situations(part.engine)
    numbers = points(judged.all)
    return History(
        title=f"{name}: what the campaign in {store.file} has seen",
        at=tuple(numbers),
        sets={
            kind: tuple(bisect_right(each, number) for number in numbers)
            for kind, each in firsts.items()
        },
        reached={each: reached.get(each) for each in names},
        times={},
        parts={},
    )


class _JudgedBy:
    """How many scenarios of a part were judged by when. ``all``: of all of its leases."""

    def __init__(self, store: Reading, part: str) -> None:
        asked = "SELECT finished, stop - first FROM lease WHERE part = ? AND finished IS NOT NULL"
        rows = sorted(store.ask(asked, part))
        self._times = [at for at, _ in rows]
        self._sums = list(accumulate(int(count) for _, count in rows))
        self.all = self._sums[-1] if rows else 0

    def by(self, at: float) -> int:
        found = bisect_right(self._times, at)
        return self._sums[found - 1] if found else 0
