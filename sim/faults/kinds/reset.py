"""Connections that are lost while a message is written."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from squall.sim.faults.choices import RETRIED, RETRIED_ANSWERS, Choices, drawn
from squall.sim.faults.messages import Hit, MessageFault
from squall.sim.world import rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(MessageFault):
    """Its connection breaks when ``part`` (0 to 1) of its way is over. All messages that are under way between
    the two workers are lost with it, and all their calls to each other fail. The next message opens a new
    connection."""

    position: ClassVar[int] = 7

    kind: Literal["reset"] = "reset"
    part: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5

    def done_to(self, which: str) -> str:
        return f"loses {which} with its connection, after {self.part:.0%} of its way"

    def verdict(self, hit: Hit) -> rules.Ruling:
        return rules.Reset(self.part, item=hit.item, nth=hit.nth)


_PARTS = (0.0, 0.5, 1.0)


@drawn("reset")
def some(choices: Choices, stream: random.Random) -> list[Reset]:
    return [
        Reset(
            types=choices.types(stream),
            part=stream.choice(_PARTS),
            **choices.which(stream, 0.1),
        )
        for _ in choices.items(stream)
    ]


@drawn("reset retried")
def of_what_is_sent_again(choices: Choices, stream: random.Random) -> list[Reset]:
    """Never more copies than there are retries; an answer that is lost was handled."""
    return [
        Reset(
            types=(type,),
            part=stream.choice(_PARTS),
            nth=choices.nth(stream, 6, 3),
            id=choices.id(),
        )
        for type in choices.types(stream, RETRIED + RETRIED_ANSWERS)
    ]
