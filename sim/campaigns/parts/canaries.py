"""Planted bugs as canaries: a campaign that cannot find them proves nothing.

Each is tried with the scenarios of the same seeds, however long they take: so whether it dies
depends on no clock. One that survives the first of them is tried with the stored scenarios of the corpus, which has
what is rarely drawn, and then with all others; if it survives those too, that is a failure of the campaign.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import ClassVar

from squall.model.events.run import Violation
from squall.sim.campaigns.parts.part import Alive, Part
from squall.sim.campaigns.row import Row, failed_row
from squall.sim.scenario import Scenario
from squall.sim.search.mutants.campaign import results_of
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.search.mutants.result import Result
from squall.sim.search.mutants.trial import Limits

#: the property of a campaign that has not found a planted bug
CANARY = "canary"
#: how many scenarios are drawn for one before the corpus is tried
_DRAWN_FIRST = 300
#: how often one is tried whose process somebody outside has ended
_TRIES = 3


@dataclass(frozen=True)
class Canaries(Part):
    """The numbers are those of ``bugs``. ``each``: seeds, from 0 on, that one is tried with: each
    under every profile of faults, if only faults bring it out. The events of a row are the
    scenarios that were tried."""

    bugs: tuple[str, ...] = ()
    each: int = 0

    kind: ClassVar[str] = "canaries"
    most_of_lease: ClassVar[int | None] = 1
    unit: ClassVar[str] = "planted bugs"

    @property
    def _how(self) -> str:
        return f"planted bugs, {self.each} seeds each"

    def rows(self, numbers: range, alive: Alive, *, again: bool = False) -> Iterator[Row]:
        for number in numbers:
            yield self._row(number, alive)

    def _row(self, number: int, alive: Alive) -> Row:
        mutant = MUTANTS[self.bugs[number]]
        drawn = Limits(seconds=math.inf, corpus=False, smaller_s=0.0)
        seeds = range(self.each)
        scenarios = 0
        for limits in (
            replace(drawn, seeds=seeds[:_DRAWN_FIRST]),
            replace(drawn, seeds=(), corpus=True),
            replace(drawn, seeds=seeds[_DRAWN_FIRST:]),
        ):
            result = self._result(mutant, limits, alive)
            scenarios += result.campaign.scenarios
            if result.killed:
                break
        told = (mutant.name, result.killed, scenarios, result.by)
        digest = blake2b(repr(told).encode(), digest_size=16).hexdigest()
        if result.killed:
            return Row(number, digest=digest, events=scenarios)
        return failed_row(number, self._survived(mutant, result, scenarios), digest, scenarios)

    def _result(self, mutant: Mutant, limits: Limits, alive: Alive) -> Result:
        for _ in range(_TRIES):
            (result,) = results_of([mutant], limits, 1, on_look=alive)
            if result.problem is None:
                break
        return result

    def _survived(self, mutant: Mutant, result: Result, scenarios: int) -> Violation:
        tried = f"{scenarios:,} scenarios ({mutant.wrong})"
        seen = result.problem or "none"
        return Violation(CANARY, mutant.name, f"a failure in one of {tried}", seen)

    def scenario(self, row: Row) -> Scenario | None:
        return None  # what was to fail has not

    def name_of(self, number: int) -> str:
        return self.bugs[number]

    def again(self, row: Row) -> str:
        words = ["squall", "mutants", self.bugs[row.seed], "--seeds", f"0:{self.each}"]
        return shlex.join(words)
