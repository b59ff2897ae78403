"""What a campaign can be made of: a kind of part is a module here, and an entry of ``KINDS``."""

from __future__ import annotations

from typing import Any

from squall.sim.campaigns.parts.canaries import Canaries
from squall.sim.campaigns.parts.diff import Diff
from squall.sim.campaigns.parts.exploration import Exploration
from squall.sim.campaigns.parts.guided import Guided
from squall.sim.campaigns.parts.part import Part
from squall.sim.campaigns.parts.saved import Saved
from squall.sim.campaigns.parts.stories import Stories
from squall.sim.campaigns.parts.tests import Suite
from squall.sim.campaigns.parts.trainings import Trainings
from squall.sim.campaigns.parts.versions import Versions

__all__ = [
    "KINDS",
    "Canaries",
    "Diff",
    "Exploration",
    "Guided",
    "Part",
    "Saved",
    "Stories",
    "Suite",
    "Trainings",
    "Versions",
    "part_of",
]

KINDS: dict[str, type[Part]] = {
    each.kind: each
    for each in (
        Part,
        Guided,
        Trainings,
        Diff,
        Canaries,
        Exploration,
        Versions,
        Stories,
        Saved,
        Suite,
    )
}


def part_of(said: dict[str, Any]) -> Part:
    """The part of which :meth:`Part.said` has said that."""
    said = {
        name: tuple(value) if isinstance(value, list) else value for name, value in said.items()
    }
    kind = KINDS[said.pop("kind")]
    first, count = said.pop("first_seed"), said.pop("scenarios")
    return kind(seeds=range(first, first + count), **said)
