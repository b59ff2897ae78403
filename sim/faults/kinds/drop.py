"""Messages that are lost."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar, Literal

from squall.sim.faults.choices import RETRIED, RETRIED_ANSWERS, Choices, drawn
from squall.sim.faults.messages import Hit, MessageFault
from squall.sim.faults.on_stock import StockSettings
from squall.sim.world import rules

#: seconds after a call's timeout when a message that a script cannot lose arrives instead
_AFTERWARDS_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(MessageFault):
    """It is lost; its sender does not learn of it."""

    position: ClassVar[int] = 2

    kind: Literal["drop"] = "drop"

    def done_to(self, which: str) -> str:
        return f"drops {which}"

    def verdict(self, hit: Hit) -> rules.Ruling:
        return rules.Drop("dropped by a fault", item=hit.item, nth=hit.nth)

    def on_stock(self, settings: StockSettings) -> str | None:
        types, instead = self.types_on_stock, self.on_stock_instead
        if types and set(types) <= set(RETRIED):
            settings.fail(self.src, types, max(len(self.nth), 1))
            return ", ".join(filter(None, (instead, "and the sender learns of it")))
        if not types or instead:
            return None
        late_s = settings.rpc_timeout_s + _AFTERWARDS_S
        settings.delay(self.src, types, late_s)
        return f"late by {late_s:g} s, when nobody waits for them any more"


@drawn("drop")
def some(choices: Choices, stream: random.Random) -> list[Drop]:
    return [
        Drop(types=choices.types(stream), **choices.which(stream, 0.15))
        for _ in choices.items(stream)
    ]


@drawn("drop retried", mild=True, light="lost")
def of_what_is_sent_again(choices: Choices, stream: random.Random) -> list[Drop]:
    """Never more copies than there are retries."""
    return [
        Drop(types=(type,), nth=choices.nth(stream, 12, 4), id=choices.id())
        for type in choices.types(stream, RETRIED + RETRIED_ANSWERS)
    ]
