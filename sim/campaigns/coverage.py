"""Which behaviour a part of a campaign has shown, and when, as its store has it."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from squall.model.coverage.behaviour import SETS, set_of
from squall.model.coverage.history import History, points
from squall.model.coverage.sometimes import situations
from squall.sim.campaigns.store_reader import Reading


def history_in(store: Reading, name: str) -> History | None:
    """The history of a part; None if there is no such part. Leases of several workers end in an
    order of their own, so the numbers of scenarios are those of one run of the campaign. Raises
    CampaignStoreError."""
    part = next((part for part in store.plan().parts if part.name == name), None)
    if part is None:
        return None
    asked = "SELECT finished, stop - first FROM lease WHERE part = ? AND finished IS NOT NULL"
    ends = sorted(store.ask(asked, name))
    times: list[float] = [at for at, _ in ends]
    sums: list[int] = [0, *accumulate(count for _, count in ends)]

    def judged_by(at: float) -> int:
        return sums[bisect_right(times, at)]

    firsts: dict[str, list[int]] = {name: [] for name in SETS}
    for fact, at in store.ask("SELECT fact, at FROM fact WHERE part = ?", name):
        firsts[set_of(fact)].append(judged_by(at))
    for each in firsts.values():
        each.sort()
    found = store.ask("SELECT name, at FROM situation WHERE part = ?", name)
    reached = {situation: judged_by(at) for situation, at in found}
    names = situations(part.engine)
    numbers = points(sums[-1])
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
