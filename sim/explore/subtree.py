"""A part of the tree of choices that is explored apart: by another process, or ahead of its turn.

What follows a choice depends on nothing but the way to it and what sleeps there. What it asks for
is another matter: races within it may need other choices to be tried on the way to it. These are
kept (:attr:`~squall.sim.explore.frames.Outer.needed`) and made good when its turn has come, in the
order in which one process alone would have come upon them. So the tree is the same, however it was
shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from squall.sim.explore.explored import Explored
from squall.sim.explore.frames import Frame, Outer
from squall.sim.world.choosing import Footprint


@dataclass
class Subtree:
    """What follows the choice ``way[-1].chosen``, with what has been explored of it.

    ``way``: the choices before and up to it, with what the subtree needs of them; those within it
    are ``explored.frontier``, of which the first comes right after.
    """

    way: list[Outer]
    explored: Explored = field(default_factory=Explored)

    @property
    def executions(self) -> int:
        return self.explored.executions

    @property
    def exhausted(self) -> bool:
        return self.explored.exhausted

    @property
    def footprint(self) -> Footprint | None:
        """What the step touched that it begins with; None if it has not been run yet."""
        return self.way[-1].footprint if self.executions else None

    def put_back(self, explored: Explored) -> None:
        """Count it as explored now, in ``explored``, whose last choice is the one that it follows.

        What is not explored of it comes next there.
        """
        frames = explored.frontier
        explored.add(self.explored)
        for frame, outer in zip(frames, self.way, strict=True):
            for names in outer.needed:
                frame.need(names)
        frames[-1].footprint = self.way[-1].footprint
        frames += self.explored.frontier


def next_subtrees(frames: list[Frame], taken: frozenset[tuple[int, int]]) -> Iterator[Subtree]:
    """What is to be explored later anyway and could be already, the largest first: those that
    follow the choices that come next at each frame, the earliest frames first.

    ``taken``: numbers of frames and names at which others are, which are known to have been begun.
    """
    for at, frame in enumerate(frames):
        asleep = {**frame.asleep, frame.chosen: frame.footprint}
        for name in frame.to_try:
            if name in asleep:
                continue
            if (at, name) in taken:
                break  # what it touches is not known yet
            ahead = frame.ahead.get(name)
            if ahead is not None and (ahead.exhausted and ahead.footprint is not None):
                asleep[name] = ahead.footprint
                continue
            if ahead is not None:
                yield ahead
                break
            way = [Outer(each) for each in frames[: at + 1]]
            way[-1].asleep, way[-1].chosen = asleep, name
            yield Subtree(way)
            break
