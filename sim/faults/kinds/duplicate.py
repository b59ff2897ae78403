"""Messages that arrive more than once."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.limits import Seconds
from squall.sim.faults.messages import Hit, MessageFault
from squall.sim.faults.words import listed
from squall.sim.world import rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(MessageFault):
    """It arrives, and for each number of ``after_s`` a copy arrives so many seconds later."""

    position: ClassVar[int] = 3

    kind: Literal["duplicate"] = "duplicate"
    after_s: Annotated[tuple[Seconds, ...], Field(min_length=1)] = (0.0,)

    def done_to(self, which: str) -> str:
        after = listed([f"{after_s:g} s" for after_s in self.after_s])
        return f"delivers {which} again {after} later"

    def verdict(self, hit: Hit) -> rules.Ruling:
        return rules.Duplicate(self.after_s, item=hit.item, nth=hit.nth)


@drawn("duplicate", mild=True, light="unnoticed")
def some(choices: Choices, stream: random.Random) -> list[Duplicate]:
    found = []
    for _ in choices.items(stream):
        after_s = tuple(
            stream.choice((0.0, choices.for_s(stream), 2 * choices.timeout_s))
            for _ in range(stream.randint(1, 2))
        )
        types = choices.types(stream)
        found.append(Duplicate(types=types, after_s=after_s, **choices.which(stream, 0.4)))
    return found
