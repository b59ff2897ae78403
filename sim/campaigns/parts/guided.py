"""The distilled cover on schedules that nobody has tried: programs that are worth it, in other worlds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import ClassVar

from squall.sim.campaigns.parts.part import Part
from squall.sim.campaigns.row import Row
from squall.sim.names import Profile
from squall.sim.scenario import Scenario
from squall.sim.search.covers import Cover, shipped
from squall.sim.search.draw import draw
from squall.sim.search.schedules import Rescheduled


@dataclass(frozen=True)
class Guided(Part):
    """The numbers go through the whole cover on one schedule, then on the next.

    ``cover``: a hash over the cover that comes with squall. One of the folder would be another on
    each machine.
    """

    cover: str = ""

    kind: ClassVar[str] = "guided"

    @property
    def _how(self) -> str:
        return f"cover, {super()._how}"

    def source(self, number: int) -> Rescheduled:
        schedule, at = divmod(number, len(_cover(self.profile).seeds))
        return Rescheduled(_cover(self.profile).seeds[at], schedule)

    def scenario(self, row: Row) -> Scenario:
        return draw(self.source(row.seed), self.settings)


@cache
def _cover(profile: Profile | None) -> Cover:
    cover = shipped(profile or "")
    assert cover is not None, "there is one for each profile"
    return cover


def stamp_of_cover(profile: Profile | None) -> str:
    """What tells the cover of a profile from others."""
    return blake2b(_cover(profile).text().encode(), digest_size=8).hexdigest()
