"""What an exploration runs, again and again, each time with another chooser."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import NamedTuple, Protocol

from squall.model.events.run import Violation
from squall.sim.world.controlled_time import Chooser


class Ended(NamedTuple):
    """What came of one execution: its final state in words without ids, times and numbers that
    the order decides, what did not hold, how many messages of each type went from which worker
    to which other one, by type and ranks, and which rare situations it has reached
    (:mod:`squall.model.coverage.sometimes`)."""

    state: str
    violations: tuple[Violation, ...] = ()
    sent: Mapping[tuple[str, int, int], int] = MappingProxyType({})
    situations: Set[str] = frozenset()


class Subject(Protocol):
    """A small program."""

    def __call__(self, chooser: Chooser) -> Ended:
        """Run it from the beginning to the end, in the order that ``chooser`` says.

        What the chooser raises passes through.
        """
