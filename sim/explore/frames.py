"""The choices on the way of an execution: what was tried at each, and what need not be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from squall.sim.explore.order import independent
from squall.sim.world.choosing import Footprint

if TYPE_CHECKING:
    from squall.sim.explore.subtree import Subtree

_NOTHING: Footprint = {}


class UnsoundError(BaseException):
    """The exploration itself is wrong: two executions contradict what was taken for independent.

    No code under test handles it.
    """


class Frame:
    """One choice: the names of what could go next, and of what was or is to be tried.

    ``asleep`` are those that need not be tried, with what they touch: an execution in which they
    come first here has been explored, and what came since does not depend on them. ``ahead``: what
    has been explored before its turn of what follows those that are still to be tried.
    """

    __slots__ = ("ahead", "asleep", "chosen", "enabled", "footprint", "to_try", "tried")

    def __init__(self, enabled: frozenset[int], asleep: dict[int, Footprint]) -> None:
        self.enabled = enabled
        self.asleep = asleep
        self.to_try: dict[int, None] = {}
        self.tried = 0
        self.chosen = -1
        #: what the step touched that was chosen last
        self.footprint: Footprint = {}
        self.ahead: dict[int, Subtree] = {}

    def choose(self, name: int) -> None:
        self.to_try[name] = None
        self.chosen = name
        self.tried += 1

    def next(self) -> bool:
        """Go on to what is to be tried next; False if nothing is left here."""
        self.asleep[self.chosen] = self.footprint
        for name in self.to_try:
            if name not in self.asleep:
                self.choose(name)
                return True
        return False

    def need(self, names: Iterable[int]) -> int | None:
        """One of ``names`` has to be tried here: the one that is to be, or None if one is already,
        or sleeps."""
        first = None
        for name in names:
            if name in self.to_try or name in self.asleep:
                return None
            if first is None:
                first = name
        if first is not None:
            if first not in self.enabled:
                raise UnsoundError(
                    "a step that depends on another one could not go before it: what the steps "
                    "touch does not say all"
                )
            self.to_try[first] = None
        return first

    def asleep_after(self) -> dict[int, Footprint]:
        """What sleeps once the chosen step is done."""
        return {
            name: footprint
            for name, footprint in self.asleep.items()
            if name != self.chosen and independent(footprint, self.footprint)
        }


class Outer(Frame):
    """A choice on the way to a subtree that is explored apart: another process has it, and is to be
    told what has to be tried there."""

    __slots__ = ("needed",)

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.enabled, dict.fromkeys(frame.asleep, _NOTHING))
        self.to_try = dict.fromkeys(frame.to_try)
        self.chosen = frame.chosen
        #: one of each of these has to be tried
        self.needed: dict[tuple[int, ...], None] = {}

    def need(self, names: Iterable[int]) -> int | None:
        """One of ``names`` has to be tried here: to be told, unless one is already, or sleeps."""
        wanted = tuple(names)
        if not any(name in self.to_try or name in self.asleep for name in wanted):
            self.needed[wanted] = None
        return None
