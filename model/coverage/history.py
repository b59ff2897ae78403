"""How what a campaign has seen of behaviour has grown, as data that can be kept and drawn."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from squall.model.coverage.behaviour import SETS
from squall.model.coverage.growth import Seen

#: points of a curve, at most: as many as a picture can show
_POINTS = 240

Number = Annotated[int, Field(ge=0)]


class History(BaseModel):
    """One campaign.

    ``at``: numbers of scenarios, the last one is of all; ``sets``: how many facts of each set
    (:mod:`squall.model.coverage.behaviour`) were seen by then. ``reached``: the number of the first
    scenario that reached each rare situation, None for those that none did; ``times``: in how many
    scenarios, where that is known. ``parts``: how many scenarios were played of each part of the campaign, in their
    order.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    version: Annotated[int, Field(ge=1, le=1)] = 1
    title: str = ""
    at: Annotated[tuple[Number, ...], Field(strict=False)]
    sets: dict[str, Annotated[tuple[Number, ...], Field(strict=False)]]
    reached: dict[str, Number | None]
    times: dict[str, Number]
    parts: dict[str, Number]

    @model_validator(mode="after")
    def _fits(self) -> History:
        if any(len(counts) != len(self.at) for counts in self.sets.values()):
            raise ValueError("sets: expected as many numbers in each as in at")
        if not set(self.sets) <= set(SETS):
            raise ValueError(f"sets: expected names among {', '.join(SETS)}")
        return self

    @property
    def scenarios(self) -> int:
        return self.at[-1] if self.at else 0

    @property
    def facts(self) -> int:
        """How many facts were seen, of all sets."""
        return sum(counts[-1] for counts in self.sets.values() if counts)


def history_of(
    seen: Seen, times: dict[str, int], parts: dict[str, int], title: str = ""
) -> History:
    """The history of what was seen. ``times``: in how many scenarios each rare situation that can be
    told was reached; ``parts`` as in :class:`History`."""
    growth = seen.growth(points(seen.scenarios))
    return History(
        title=title,
        at=tuple(number for number, _ in growth),
        sets={name: tuple(counts[name] for _, counts in growth) for name in SETS},
        reached={name: seen.reached.get(name) for name in times},
        times=times,
        parts=parts,
    )


def points(last: int) -> list[int]:
    """Numbers up to the last, evenly spread over its orders of magnitude."""
    if last < 1:
        return []
    spread = {round(last ** (at / (_POINTS - 1))) for at in range(_POINTS)}
    return sorted({1, last, *(min(last, max(1, number)) for number in spread)})
