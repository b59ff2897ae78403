"""Stories that have numbers, each with those that are most likely to be wrong: the least and the
greatest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import squall.sim.programs.stories.play  # noqa: F401  registers the stories
from squall.model.program.program import Input, Leaf, Op, Program, Step, Trainer
from squall.model.program.stories import SIZED, Story, port_only, ranges_of
from squall.sim.campaigns.parts.part import Alive, Part
from squall.sim.campaigns.row import Row, row_of
from squall.sim.diff.known import known_rules
from squall.sim.names import EngineName
from squall.sim.scenario import Scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings
from squall.sim.search.judge import Verdict, judge_in_time

#: workers of a program; to save the others time, only one number has all corners
WORKERS, _ALL_CORNERS = (1, 2, 4), 2


@dataclass(frozen=True)
class Stories(Part):
    """The numbers are those of :func:`scenarios`."""

    kind: ClassVar[str] = "stories"
    most_of_lease: ClassVar[int | None] = 60

    @property
    def _how(self) -> str:
        return f"stories with numbers, {self.engine}"

    def source(self, number: int) -> Scenario:
        return scenarios(self.engine)[number]

    def rows(self, numbers: range, alive: Alive, *, again: bool = False) -> Iterator[Row]:
        with campaign_settings():
            for number in numbers:
                settings = self.settings._replace(stats=True)
                yield row_of(number, verdict(self.source(number), settings))

    def scenario(self, row: Row) -> Scenario:
        return self.source(row.seed)

    def name_of(self, number: int) -> str:
        return self.source(number).note

    def again(self, row: Row) -> None:
        return None  # the scenario that is kept is replayed


def verdict(scenario: Scenario, settings: Settings) -> Verdict:
    """What came of it. On the engine ``torch`` nothing is wrong where rules (docs/divergences.md)
    predict all in which it differs from the port: those are PyTorch's defects. For the main thread."""
    found = judge_in_time(scenario, settings)
    if found.ok or not known_rules(scenario):
        return found
    return found._replace(violations=(), scenario=None, place="")


@cache
def scenarios(engine: EngineName) -> tuple[Scenario, ...]:
    """Each kind about each worker with each of its corners, and several of a kind at once."""
    found: list[Scenario] = []
    for kind in SIZED:
        if engine == "port" or kind not in port_only():
            found += _alone(kind, engine)
            at_once = [
                Story(kind=kind, worker=n, numbers=c) for n, c in enumerate(corners(kind)[:3])
            ]
            found.append(sized(*at_once, *at_once, engine=engine, note=f"{kind}, six at once"))
    return tuple(found)


def _alone(kind: str, engine: EngineName) -> Iterator[Scenario]:
    for workers in WORKERS:
        for to in range(min(workers, 2)):
            for numbers in corners(kind) if workers == _ALL_CORNERS else corners(kind)[:2]:
                story = Story(kind=kind, worker=to, numbers=numbers)
                note = f"{kind} {numbers} to worker {to} of {workers}"
                yield sized(story, workers=workers, engine=engine, note=note)


def sized(
    *stories: Story, workers: int = 3, engine: EngineName = "port", note: str = ""
) -> Scenario:
    """A step with one call, beside which stories are told."""
    op = Op(kind="total", inputs=(Input(1),), worker=workers - 1, call="sync")
    trainer = Trainer(worker=0, steps=(Step(ops=(op,), stories=stories),))
    leaves = (Leaf(owner=0, shape=(2,)),)
    program = Program(workers=workers, leaves=leaves, trainers=(trainer,))
    return Scenario(work=program, seed=2, engine=engine, note=note)


def corners(kind: str) -> list[tuple[int, ...]]:
    """Every number at its least and at its greatest, and each alone at its greatest."""
    spans = list(ranges_of(kind).values())
    least = [lo for lo, _ in spans]
    found = [tuple(least), tuple(hi for _, hi in spans)]
    found += [(*least[:at], hi, *least[at + 1 :]) for at, (_, hi) in enumerate(spans)]
    return list(dict.fromkeys(found))
