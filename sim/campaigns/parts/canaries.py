"""Planted bugs as canaries: a campaign that cannot find them proves nothing.

Each is tried with the scenarios of the same seeds, however long they take: so whether it dies
depends on no clock. One that does not is a failure of the campaign.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar

from squall.model.events.run import Violation
from squall.sim.campaigns.parts.part import Alive, Part
from squall.sim.campaigns.row import Row, failed_row
from squall.sim.scenario import Scenario
from squall.sim.search.mutants.campaign import results_of
from squall.sim.search.mutants.families import MUTANTS
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.result import Result
from squall.sim.search.mutants.trial import Limits

#: the property of a campaign that has not found a planted bug
CANARY = "canary"
#: what is tried if nothing else is said: bugs of all rooms of the engine, each of which the
#: scenarios of the first 60 seeds have shown
BY_DEFAULT = (
    "fetch-not-recorded",
    "response-by-its-own-grad-mode",
    "second-output-of-a-node-lost",
    "message-shares-its-tensors",
    "context-comes-back-to-life",
    "dependency-not-counted",
    "sends-not-waited-for",
    "arrival-counted-again",
    "over-is-not-noticed",
    "graph-never-freed",
    "failed-gradients-not-told",
    "node-goes-on-after-the-end",
    "second-gradient-replaces-the-first",
    "buffer-adds-in-place",
    "shared-storage-stolen",
    "sparse-accumulates-dense-in-place",
    "child-accept-once-only",
    "users-of-the-owner-kept",
    "told-of-before-creation-freed",
    "second-owner-made",
    "one-waiter-woken",
    "no-timeout",
    "quiet-not-told",
    "future-completed-twice",
    "all-calls-lost-with-a-peer",
)
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
        limits = Limits(seconds=math.inf, seeds=range(self.each), corpus=False, smaller_s=0.0)
        for _ in range(_TRIES):
            (result,) = results_of([mutant], limits, 1, on_look=alive)
            if result.problem is None:
                break
        told = (mutant.name, result.killed, result.campaign.scenarios, result.by)
        digest = blake2b(repr(told).encode(), digest_size=16).hexdigest()
        scenarios = result.campaign.scenarios
        if result.killed:
            return Row(number, digest=digest, events=scenarios)
        return failed_row(number, self._survived(mutant, result), digest, scenarios)

    def _survived(self, mutant: Mutant, result: Result) -> Violation:
        tried = f"{result.campaign.scenarios:,} scenarios ({mutant.wrong})"
        seen = result.problem or "none"
        return Violation(CANARY, mutant.name, f"a failure in one of {tried}", seen)

    def scenario(self, row: Row) -> Scenario | None:
        return None  # what was to fail has not

    def name_of(self, number: int) -> str:
        return self.bugs[number]

    def again(self, row: Row) -> str:
        words = ["squall", "mutants", self.bugs[row.seed], "--seeds", f"0:{self.each}"]
        return shlex.join(words)


def every_bug() -> tuple[str, ...]:
    """All that a campaign can find. Those of devices are tried on the stand-in device, and those that
    only faults bring out under each profile of faults, as ``squall mutants`` does it."""
    return tuple(name for name, mutant in MUTANTS.items() if mutant.expected)


def check_bug(name: str) -> None:
    """Raises ValueError unless that is a planted bug that a campaign can find."""
    mutant = MUTANTS.get(name)
    if mutant is None:
        raise ValueError(f"there is no planted bug {name!r}, squall mutants --list has all")
    if not mutant.expected:
        raise ValueError(f"{name!r} cannot be found yet: {mutant.unseen}")
