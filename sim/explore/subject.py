"""What an exploration runs, again and again, each time with another chooser."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from squall.model.events.run import Violation
from squall.sim.world.choosing import Chooser


class Ended(NamedTuple):
    """What came of one execution: its final state in words without ids, times and numbers that
    the order decides, and what did not hold."""

    state: str
    violations: tuple[Violation, ...] = ()


class Subject(Protocol):
    """A small program."""

    def __call__(self, chooser: Chooser) -> Ended:
        """Run it from the beginning to the end, in the order that ``chooser`` says.

        What the chooser raises passes through.
        """
