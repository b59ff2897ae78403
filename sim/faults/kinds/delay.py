"""Messages that are late."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from squall.sim.faults.choices import RETRIED, RETRIED_ANSWERS, Choices, drawn
from squall.sim.faults.limits import Seconds
from squall.sim.faults.messages import Hit, MessageFault
from squall.sim.faults.on_stock import StockSettings
from squall.sim.world import rules
from squall.sim.world.trace import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(MessageFault):
    """It arrives ``seconds`` later, plus a random time of at most ``spread_s``."""

    position: ClassVar[int] = 1

    kind: Literal["delay"] = "delay"
    seconds: Seconds
    spread_s: Seconds = 0.0

    def done_to(self, which: str) -> str:
        more = f" and up to {self.spread_s:g} s more" if self.spread_s else ""
        return f"delays {which} by {self.seconds:g} s{more}"

    def verdict(self, hit: Hit) -> rules.Ruling:
        seconds = self.seconds
        if self.spread_s:
            seconds += hit.stream.random() * self.spread_s
        return rules.Delay(seconds, item=hit.item, nth=hit.nth)

    def on_stock(self, settings: StockSettings) -> str | None:
        seconds = self.seconds + self.spread_s / 2
        # What is not selected must not fail because of it.
        if not self.types_on_stock or (
            self.on_stock_instead and seconds * 4 > settings.rpc_timeout_s
        ):
            return None
        settings.delay(self.src, self.types_on_stock, seconds)
        return self.on_stock_instead

    @property
    def draws(self) -> bool:
        return self.spread_s > 0 or 0 < self.probability < 1

    def seen(self, event: Event) -> dict[str, Any]:
        return {"seconds": event["detail"], "spread_s": 0.0}


@drawn("delay", mild=True)
def some(choices: Choices, stream: random.Random) -> list[Delay]:
    return [
        Delay(
            types=choices.types(stream),
            seconds=choices.for_s(stream),
            spread_s=stream.choice((0.0, choices.for_s(stream))),
            **choices.which(stream, 0.3),
        )
        for _ in choices.items(stream)
    ]


@drawn("delay retried", mild=True)
def of_what_is_sent_again(choices: Choices, stream: random.Random) -> list[Delay]:
    """Longer than the first retries wait, so that a copy comes while, or after, it does."""
    return [
        Delay(
            types=choices.types(stream, RETRIED + RETRIED_ANSWERS),
            seconds=stream.choice((0.3, 1.5, 4.0)) * choices.timeout_s,
            spread_s=choices.timeout_s,
            **choices.which(stream, 0.4),
        )
        for _ in choices.items(stream)
    ]
