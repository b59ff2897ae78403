"""Links whose latency is higher for a while."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Injection
from squall.sim.faults.limits import Factor, Seconds
from squall.sim.faults.links import LateLink, LinkFault
from squall.sim.faults.words import listed

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySpike(LinkFault):
    """Latencies are ``factor`` times what they were, and ``extra_s`` more."""

    position: ClassVar[int] = 1

    kind: Literal["latency_spike"] = "latency_spike"
    factor: Factor = 1.0
    extra_s: Seconds = 0.0

    def done_to(self, links: str) -> str:
        slower = [f"{self.factor:g} times as long"] if self.factor != 1 else []
        more = [f"{self.extra_s:g} s more"] if self.extra_s else []
        return f"lets messages on {links} take {listed([*slower, *more] or ['as long'])}"

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Slower(self, name, injection)


class _Slower(LateLink[LatencySpike]):
    def arrival_s(self, message: Message, sent_s: float, arrives_s: float) -> float:
        return sent_s + (arrives_s - sent_s) * self.item.factor + self.item.extra_s


@drawn("latency spike", mild=True)
def some(choices: Choices, stream: random.Random) -> list[LatencySpike]:
    found = []
    for _ in choices.items(stream):
        src, dst = choices.link(stream)
        extra_s = stream.choice((0.0, choices.for_s(stream)))
        factor = stream.choice((1.0, 3.0, 20.0))
        found.append(LatencySpike(src=src, dst=dst, factor=factor, extra_s=extra_s))
    return found
