"""Messages whose bytes change on their way."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.limits import Count
from squall.sim.faults.messages import Hit, MessageFault
from squall.sim.world import rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupt(MessageFault):
    """``flips`` of its bytes (64 at most) arrive changed. The receiver's checksum finds it."""

    position: ClassVar[int] = 5

    kind: Literal["corrupt"] = "corrupt"
    flips: Annotated[Count, Field(le=64)] = 1

    def done_to(self, which: str) -> str:
        count = "a byte" if self.flips == 1 else f"{self.flips} bytes"
        return f"changes {count} of {which}"

    def verdict(self, hit: Hit) -> rules.Ruling:
        return rules.Corrupt(self.flips, hit.stream, item=hit.item, nth=hit.nth)


@drawn("corrupt")
def some(choices: Choices, stream: random.Random) -> list[Corrupt]:
    return [
        Corrupt(
            types=choices.types(stream), flips=stream.randint(1, 4), **choices.which(stream, 0.1)
        )
        for _ in choices.items(stream)
    ]
