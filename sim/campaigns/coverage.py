"""Which behaviour a part of a campaign has shown, and when, as its store has it."""

from __future__ import annotations

from bisect import bisect_right

from sqlalchemy import select

from squall.model.coverage.behaviour import SETS, set_of
from squall.model.coverage.history import History, points
from squall.model.coverage.sometimes import situations
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.reading import Reading
from squall.sim.campaigns.tables import FACT, SITUATION


def history_in(store: Reading, name: str) -> History | None:
    """The history of a part; None if there is no such part. Leases of several workers end in an
    order of their own, so the numbers of scenarios are those of one run of the campaign. Raises
    CampaignStoreError."""
    part = next((part for part in Plan.read(store.said).parts if part.name == name), None)
    if part is None:
        return None
    firsts: dict[str, list[int]] = {name: [] for name in SETS}
    for fact, at in store.ask(select(FACT.c.fact, FACT.c.at).where(FACT.c.part == name)):
        firsts[set_of(fact)].append(at)
    for each in firsts.values():
        each.sort()
    known = {
        situation: (times, at)
        for situation, times, at in store.ask(
            select(SITUATION.c.name, SITUATION.c.times, SITUATION.c.at).where(
                SITUATION.c.part == name
            )
        )
    }
    names = situations(part.engine)
    numbers = points(store.judged().get(name, 0))
    return History(
        title=f"{name}: what the campaign in {store.file} has seen",
        at=tuple(numbers),
        sets={
            kind: tuple(bisect_right(each, number) for number in numbers)
            for kind, each in firsts.items()
        },
        reached={each: known[each][1] if each in known else None for each in names},
        times={each: known[each][0] if each in known else 0 for each in names},
        parts={},
    )
