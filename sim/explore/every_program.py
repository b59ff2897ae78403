"""All programs of an enumeration, each in every order: what they come to together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from squall.sim.explore.campaign import Part
from squall.sim.explore.enumeration import Bounds, programs
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
        for each in (part.explored for part in explored):
            for name in ("executions", "complete", "pruned", "seconds"):
                setattr(self, name, getattr(self, name) + getattr(each, name))
            self.classes += len(each.classes)
            self.states += len(each.states)
            self.largest = max(self.largest, each.executions)
        states = len(explored[0].explored.states)
        if states > 1:
            self.several.append((text, states))


def every_program(bounds: Bounds) -> list[Program]:
    """The programs within the bounds, the smallest first."""
    world = World(skip_handshakes=True)
    return [
        Program(text, Scenario(work=program, world=world)) for text, program in programs(bounds)
    ]
