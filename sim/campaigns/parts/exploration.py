"""All programs of a size, each in every order that can make a difference."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import ClassVar

from squall.model.events.failure_place import place_of
from squall.model.events.run import Violation
from squall.sim.campaigns.parts.part import Alive, Part
from squall.sim.campaigns.row import Row, failed_row
from squall.sim.explore.campaign import ExploredPart as Explored
from squall.sim.explore.campaign import parts
from squall.sim.explore.enumeration import read_bounds, scenarios
from squall.sim.explore.execution import How
from squall.sim.explore.search import Budget
from squall.sim.scenario import Scenario
from squall.sim.search.replay_with_mutant import again
from squall.sim.world.controlled_time import Grain, GrainError, NotExplorableError

#: the property of a program of which not every order was run
EXPLORED = "explored"


@dataclass(frozen=True)
class Exploration(Part):
    """The numbers are those of the ``programs`` within these bounds, the smallest first.

    ``executions``: of each exploration at most; there is no limit of time, which would not be the
    same on each machine. ``one_fault``: once more with each fault that one message or worker can have.
    """

    programs: str = ""
    executions: int = 0
    grain: Grain = "message"
    one_fault: bool = False

    kind: ClassVar[str] = "explore"
    most_of_lease: ClassVar[int | None] = 4
    unit: ClassVar[str] = "programs"

    @property
    def _how(self) -> str:
        fault = ", one fault each" if self.one_fault else ""
        return f"every order of {self.programs}, grain {self.grain}{fault}"

    def rows(self, numbers: range, alive: Alive, *, again: bool = False) -> Iterator[Row]:
        for number in numbers:
            yield self._row(number, alive)

    def _row(self, number: int, alive: Alive) -> Row:
        text, scenario = programs(self.programs)[number]
        seen = blake2b(digest_size=16)
        first, place = None, ""
        try:
            for part in self._explored(scenario, alive):
                seen.update(repr(_told(part)).encode())
                if first is None and (first := _violation(part, self.executions)) is not None:
                    place = _place(part, first)
        except (GrainError, NotExplorableError, RuntimeError) as error:
            first = Violation(EXPLORED, "it cannot be explored", "every order", str(error))
        if first is None:
            return Row(number, digest=seen.hexdigest())
        row = failed_row(number, first, seen.hexdigest())
        return row._replace(text=f"{row.text} ({text})", place=place)

    def _explored(self, scenario: Scenario, alive: Alive) -> Iterator[Explored]:
        return parts(
            scenario,
            How(self.grain),
            Budget(self.executions),
            one_fault=self.one_fault,
            on_execution=lambda explored: alive(),
        )

    def scenario(self, row: Row) -> Scenario | None:
        """The order in which it shows, which is looked for again."""
        if row.property == EXPLORED:
            return None
        for part in self._explored(programs(self.programs)[row.seed][1], lambda: None):
            for found, scenario in part.counterexamples():
                if (found.violation.property, found.violation.what) == (row.property, row.what):
                    return scenario
        return None

    def name_of(self, number: int) -> str:
        return f"program {number}"

    def again(self, row: Row) -> str | None:
        if row.property != EXPLORED:
            return None
        words = ["squall", "explore", "--programs", self.programs]
        words += ["--budget", str(self.executions), "--grain", self.grain]
        return shlex.join(words + ["--faults", "one"] * self.one_fault)


@cache
def programs(bounds: str) -> list[tuple[str, Scenario]]:
    """Those within the bounds. Raises BoundsError."""
    return scenarios(read_bounds(bounds))


def _told(part: Explored) -> tuple[object, ...]:
    explored = part.explored
    found = sorted((*key, each.choices) for key, each in explored.found.items())
    counts = (explored.complete, explored.pruned, len(explored.classes), explored.failed)
    return (part.fault, counts, sorted(explored.states.items()), explored.exhausted, found)


def _place(part: Explored, first: Violation) -> str:
    """Where it shows, in the order in which it was found."""
    for found, scenario in part.counterexamples():
        if (found.violation.property, found.violation.what) == (first.property, first.what):
            run = again(scenario)
            same = [each for each in run.violations if each[:2] == first[:2]]
            return place_of(run, same[0]) if same else ""
    return ""


def _violation(part: Explored, budget: int) -> Violation | None:
    """What is wrong with an exploration, if anything is."""
    for found in part.explored.found.values():
        seen = f"{found.violation.seen}{f', {part.fault}' if part.fault else ''}"
        return found.violation._replace(seen=seen)
    if part.explored.exhausted:
        return None
    return Violation(EXPLORED, "not every order was run", "an end", f"{budget:,} executions")
