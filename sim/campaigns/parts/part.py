"""A part of a campaign: numbers, each of which stands for something to judge.

What comes of a number depends on the part, the number and the code, and on nothing else: not on
where, when, or with which others it is judged.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, ClassVar

from squall.sim.campaigns.row import Row, row_of
from squall.sim.names import EngineName, Profile
from squall.sim.scenario import Scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import Source, drawn_ahead, judge_in_time

#: tells whoever waits for rows that the work goes on, where one takes long
Alive = Callable[[], object]
#: of one number in so many it is noted what its run showed: that takes a fifteenth of its time
LOOKED_AT_EVERY = 8


@dataclass(frozen=True)
class Part:
    """Seeds, drawn and run in the same way; other kinds of parts have other numbers.

    ``name``: of its own in a campaign. ``seeds``: its numbers.
    """

    name: str
    seeds: range
    profile: Profile | None = None
    engine: EngineName = "port"

    #: what a campaign.toml calls it
    kind: ClassVar[str] = "seeds"
    #: numbers that a process is given at most, where that is not for the plan to say
    most_of_lease: ClassVar[int | None] = None
    #: what a number is, where it is counted
    unit: ClassVar[str] = "scenarios"

    @property
    def settings(self) -> Settings:
        return Settings(self.profile, engine=self.engine)

    @property
    def engines(self) -> tuple[EngineName, ...]:
        """Those that have to be ready."""
        return (self.engine,)

    def __str__(self) -> str:
        return f"{self.name} {self.seeds.start}:{self.seeds.stop} ({self._how})"

    @property
    def _how(self) -> str:
        faults = self.profile or "no faults"
        return f"{faults}, {self.engine}"

    def said(self) -> dict[str, Any]:
        """All that decides its verdicts beside the code, plain values only."""
        rest = {each.name: getattr(self, each.name) for each in fields(self)}
        seeds = rest.pop("seeds")
        said = {"kind": self.kind, "first_seed": seeds.start, "scenarios": len(seeds), **rest}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in said.items()}

    def source(self, number: int) -> Source:
        """What stands for a number."""
        return number

    def rows(self, numbers: range, alive: Alive, *, again: bool = False) -> Iterator[Row]:
        """Judge these numbers, in their order. For the main thread.

        ``again``: a process has ended at the first of them, which is drawn alone then: else it
        might be blamed for what the drawing of a later one does.
        """
        settings = self.settings
        first, later = numbers[:again], numbers[again:]
        sources: Iterable[Source] = map(self.source, first)
        drawn = drawn_ahead(map(self.source, later), settings)
        with campaign_settings(settings.device):
            for number, source in zip(numbers, chain(sources, drawn), strict=True):
                stats = number % LOOKED_AT_EVERY == 0
                yield row_of(number, judge_in_time(source, settings._replace(stats=stats)))

    def scenario(self, row: Row) -> Scenario | None:
        """The scenario of a row that failed; None if there is none to replay. Raises whatever
        making it raises."""
        return draw(row.seed, self.settings)

    def name_of(self, number: int) -> str:
        """A number in words."""
        return f"seed {self.source(number)}"

    def again(self, row: Row) -> str | None:
        """A command line that judges it again; None if there is none but a replay of its scenario."""
        words = ["squall", "replay", str(self.source(row.seed))]
        if self.profile is not None:
            words += ["--faults", self.profile]
        if self.engine != "port":
            words += ["--engine", self.engine]
        return shlex.join(words)
