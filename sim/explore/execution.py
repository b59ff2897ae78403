"""One execution of an exploration: it repeats the choices made so far, and makes the next ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from squall.sim.explore.order import Order
from squall.sim.explore.tree import Frame, UnsoundError
from squall.sim.world.controlled_time import Dependence, Entry, Footprint, Grain

Link = tuple[int, int, bool]


class How(NamedTuple):
    """How executions are chosen: see :class:`~squall.sim.world.controlled_time.Chooser`."""

    grain: Grain = "message"
    ordered: bool = True
    dependence: Dependence = "delivery"
    crowded: bool = False


class Pruned(BaseException):
    """All that could go next sleeps: every way to go on has been explored elsewhere.

    No code under test handles it.
    """


class Execution:
    """The chooser of one run. ``frames`` has the choices to repeat; those that follow are appended.

    ``reduced`` False: each choice has to be tried with all that is enabled.
    """

    def __init__(self, frames: list[Frame], how: How, *, reduced: bool = True) -> None:
        self.grain: Grain = how.grain
        self.ordered = how.ordered
        self.dependence: Dependence = how.dependence
        self.crowded = how.crowded
        self.order = Order()
        #: how many steps there were
        self.steps = 0
        self._reduced = reduced
        self._frames = frames
        self._repeated = len(frames)
        self._depth = 0
        #: of each step: the number of its choice, or -1 if there was none
        self._frame_of: list[int] = []
        self._links: list[Link | None] = []

    def choose(self, enabled: Sequence[Entry]) -> Entry:
        frames, depth = self._frames, self._depth
        if depth < self._repeated:
            self._depth += 1
            name = frames[depth].chosen
            for entry in enabled:
                if entry.name == name:
                    return entry
            raise UnsoundError("the same choices did not give the same run")
        asleep = frames[-1].asleep_after() if frames and self._reduced else {}
        frame = Frame(frozenset(entry.name for entry in enabled), asleep)
        awake = [entry for entry in enabled if entry.name not in asleep]
        if not awake:
            raise Pruned
        chosen = awake[0]
        frames.append(frame)
        if not self._reduced:
            frame.to_try = {each.name: None for each in enabled}
        frame.choose(chosen.name)
        self._depth += 1
        return chosen

    def done(self, name: int, entry: Entry | None, footprint: Footprint) -> None:
        order, frames = self.order, self._frames
        number = self.steps
        self.steps += 1
        was_chosen = entry is not None and not entry.is_timed
        races = order.add(name, None if entry is None else entry.parent, footprint)
        self._links.append(None if entry is None else entry.link)
        if not was_chosen:
            self._frame_of.append(-1)
            return
        at = self._depth - 1
        self._frame_of.append(at)
        frames[at].footprint = footprint
        if not self._reduced or number == 0:
            return
        link = self._links[number] if self.ordered else None
        for earlier in races:
            before = self._frame_of[earlier]
            if before < 0 or (link is not None and self._links[earlier] == link):
                continue  # nothing could have gone before it, or not this one
            names = [order.names[each] for each in order.initials(earlier, number)]
            frames[before].need(names)
