"""All programs of an enumeration, each in every order: what they come to together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from squall.sim.explore.campaign import OnExecution, Part, parts
from squall.sim.explore.enumeration import Bounds, programs
from squall.sim.explore.execution import How
from squall.sim.explore.search import Budget
from squall.sim.scenario import Scenario, World


class Program(NamedTuple):
    """One program: in words, and as a scenario."""

    text: str
    scenario: Scenario


@dataclass
class Totals:
    """What the explorations of some programs have come to, together.

    ``exhausted`` programs were run in every order; of ``failed`` ones something does not hold in
    some execution. ``several``: those that have more than one final state without a fault, with
    their number of states.
    """

    programs: int = 0
    explorations: int = 0
    exhausted: int = 0
    failed: int = 0
    executions: int = 0
    complete: int = 0
    pruned: int = 0
    classes: int = 0
    states: int = 0
    largest: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    several: list[tuple[str, int]] = field(default_factory=list)

    def add(self, text: str, explored: list[Part]) -> None:
        """Count all explorations of a program, the first of which is without a fault."""
        self.programs += 1
        self.explorations += len(explored)
        self.exhausted += all(part.explored.exhausted for part in explored)
        self.failed += any(part.explored.failed for part in explored)
        self.interrupted |= any(part.explored.interrupted for part in explored)
        for part in explored:
            self.executions += part.explored.executions
            self.complete += part.explored.complete
            self.pruned += part.explored.pruned
            self.classes += len(part.explored.classes)
            self.states += len(part.explored.states)
            self.largest = max(self.largest, part.explored.executions)
            self.seconds += part.explored.seconds
        states = len(explored[0].explored.states)
        if states > 1:
            self.several.append((text, states))


def every_program(bounds: Bounds) -> list[Program]:
    """The programs within the bounds, the smallest first."""
    world = World(skip_handshakes=True)
    return [
        Program(text, Scenario(work=program, world=world)) for text, program in programs(bounds)
    ]


def explore_every(
    chosen: list[Program],
    how: How,
    budget: Budget,
    *,
    one_fault: bool = False,
    jobs: int = 1,
    before: Callable[[int, Program], object] = lambda number, program: None,
    on_execution: OnExecution = lambda _: None,
) -> Iterator[tuple[Program, list[Part]]]:
    """Explore one program after the other, as :func:`squall.sim.explore.campaign.parts` does, up to
    an interrupt. ``before`` is called before each, with its number from 0."""
    for number, program in enumerate(chosen):
        before(number, program)
        explored = list(
            parts(
                program.scenario,
                how,
                budget,
                one_fault=one_fault,
                jobs=jobs,
                on_execution=on_execution,
            )
        )
        yield program, explored
        if any(part.explored.interrupted for part in explored):
            return
