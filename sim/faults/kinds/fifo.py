"""Links on which no message overtakes another."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Injection
from squall.sim.faults.links import LateLink, LinkFault

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo(LinkFault):
    """What is sent first arrives first."""

    position: ClassVar[int] = 5

    kind: Literal["fifo"] = "fifo"

    def done_to(self, links: str) -> str:
        return f"keeps messages on {links} in order"

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _InOrder(self, name, injection)


class _Arrivals(dict[tuple[int, int], float]):
    """By link: when the last message arrives that an item of this kind is about."""


class _InOrder(LateLink[Fifo]):
    def __init__(self, item: Fifo, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        self._last = injection.shared(_Arrivals)

    def arrival_s(self, message: Message, sent_s: float, arrives_s: float) -> float:
        link = message.src, message.dst
        last_s = self._last.get(link)
        # A later one of two arrivals at one instant might be handled first.
        if last_s is not None and arrives_s <= last_s:
            arrives_s = math.nextafter(last_s, math.inf)
        self._last[link] = arrives_s
        return arrives_s


@drawn("fifo", mild=True, light="unnoticed")
def one(choices: Choices, stream: random.Random) -> list[Fifo]:
    src, dst = choices.link(stream)
    return [Fifo(src=src, dst=dst)]
