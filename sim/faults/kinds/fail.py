"""Messages that cannot be sent."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar, Literal

from squall.sim.faults.choices import RETRIED, Choices, drawn
from squall.sim.faults.messages import Hit, MessageFault
from squall.sim.faults.on_stock import StockSettings
from squall.sim.world import rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(MessageFault):
    """It is not sent, and its sender gets ``error`` at once."""

    position: ClassVar[int] = 6

    kind: Literal["fail"] = "fail"
    error: str = "connection reset by peer"

    def done_to(self, which: str) -> str:
        return f"lets the sending of {which} fail ({self.error})"

    def verdict(self, hit: Hit) -> rules.Ruling:
        return rules.Fail(self.error, item=hit.item, nth=hit.nth)

    def on_stock(self, settings: StockSettings) -> str | None:
        types, instead = self.types_on_stock, self.on_stock_instead
        if not types or (instead and not set(types) <= set(RETRIED)):
            return None
        settings.fail(self.src, types, max(len(self.nth), 1))
        return instead


@drawn("fail")
def some(choices: Choices, stream: random.Random) -> list[Fail]:
    return [
        Fail(types=choices.types(stream), **choices.which(stream, 0.1))
        for _ in choices.items(stream)
    ]


@drawn("fail retried", mild=True, light="lost")
def of_what_is_sent_again(choices: Choices, stream: random.Random) -> list[Fail]:
    """Never more copies than there are retries."""
    return [
        Fail(types=(type,), nth=choices.nth(stream, 12, 4), id=choices.id())
        for type in choices.types(stream, RETRIED)
    ]
