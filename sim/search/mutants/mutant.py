"""Planted bugs: a mutant is a patch of ``real/``, or of what process groups are made of, that makes it wrong."""

from __future__ import annotations

from dataclasses import dataclass

from squall.sim.names import Device
from squall.sim.scenarios.patch import Patch

#: what a campaign must do, besides running programs, before a mutant can show: one letter each
SCHEDULES = {
    "P": "a plain run",
    "R": "messages overtake each other",
    "L": "a message is lost",
    "E": "sending a message fails at once",
    "X": "a message is delivered twice, or a retry comes late",
    "T": "tasks of one worker interleave",
    "K": "a worker is killed",
    "O": "a timeout fires while the work goes on",
    "G": "a reference is dropped at a chosen moment",
    "Q": "shutdown at a chosen moment",
}
#: those that only injected faults can bring about
FAULTS = frozenset("LEXKQ")
#: the origin of those of drawn.py
DRAWN = "drawn"


@dataclass(frozen=True, kw_only=True)
class Mutant(Patch):
    """One planted bug. ``wrong`` says in words what is wrong
    then; ``origin`` where the bug is from: an issue (i…) or pull request (p…) of PyTorch, or
    "own", or "drawn" (drawn.py). ``needs`` are the letters of the schedules that bring it out, each of which may do.
    ``device``: where tensors have to be for it to show; those of the CPU never come there.
    ``unseen``: why no program and no check can tell it yet; empty if it is expected to die.
    ``groups``: it is tried with trainings over process groups, and not with programs.
    """

    wrong: str
    origin: str = "own"
    needs: str = "P"
    unseen: str = ""
    device: Device = "cpu"
    groups: bool = False

    @property
    def needs_faults(self) -> bool:
        """Whether it stays hidden as long as nothing is lost, doubled, late or killed."""
        return set(self.needs) <= FAULTS

    @property
    def expected(self) -> bool:
        """Whether a campaign should kill it, with faults if it needs some."""
        return not self.unseen
