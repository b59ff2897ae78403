"""A seed's program on another schedule: ``712@3`` is what seed 712 computes, in another world, with
other faults and random numbers of the run.

Distilled covers name programs that showed something rare (sim/search/covers); a campaign plays
them with schedules of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from squall.model.generate.keyed import Changes, KeyedChoices
from squall.sim.names import GROUPS, MAX_SEED

if TYPE_CHECKING:
    from squall.sim.scenario import Scenario

#: what a schedule decides: choices of a scenario, by their keys (sim/search/draw.py)
WORLD, FAULTS, RUN = "world#0", "faults#0", "run#0"
_TEXT = re.compile(r"([0-9]+)@([0-9]+)")


class Rescheduled(NamedTuple):
    """A seed with a schedule, both counted from 0."""

    seed: int
    schedule: int

    def __str__(self) -> str:
        return f"{self.seed}@{self.schedule}"

    @property
    def changes(self) -> Changes:
        """What differs from the scenario of the seed: the same for each seed."""
        numbers = KeyedChoices(("schedule", self.schedule))
        return {key: numbers.number(key) for key in (WORLD, FAULTS, RUN)}


def names_a_seed(text: str) -> bool:
    """Whether ``text``, a scenario's note, is of what a seed draws: empty, ``SEED@SCHEDULE`` or ``groups:SEED``."""
    return not text or text.startswith(GROUPS) or _TEXT.fullmatch(text) is not None


def seed_name(scenario: Scenario) -> str:
    """The seed that a scenario is from, with its schedule if that is another one than its own."""
    return scenario.note if scenario.note and names_a_seed(scenario.note) else str(scenario.seed)


def rescheduled(text: str) -> Rescheduled | None:
    """What ``SEED@SCHEDULE`` says; None if ``text`` is nothing of that kind.

    Raises ValueError if one of the two numbers is too large.
    """
    found = _TEXT.fullmatch(text) if text.isascii() else None
    if found is None:
        return None
    for name, digits in zip(("seed", "schedule"), found.groups(), strict=True):
        if len(digits) > len(str(MAX_SEED)) or int(digits) > MAX_SEED:
            raise ValueError(f"the {name} {digits} is too large, expected at most {MAX_SEED}")
    return Rescheduled(int(found[1]), int(found[2]))
