"""Links that lose some of their messages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Fault, Injection
from squall.sim.faults.kinds.drop import Drop
from squall.sim.faults.limits import Id, Probability
from squall.sim.faults.links import LinkFault, LossyLink
from squall.sim.faults.messages import one_message
from squall.sim.world import rules
from squall.sim.world.trace import Event

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(LinkFault):
    """Each message from ``src`` to ``dst`` is lost with ``probability``. The other direction needs
    an item of its own."""

    position: ClassVar[int] = 3

    kind: Literal["loss"] = "loss"
    probability: Probability
    id: Id = 0

    def done_to(self, links: str) -> str:
        return f"loses messages on {links} with probability {self.probability:g}"

    @property
    def draws(self) -> bool:
        return 0 < self.probability < 1

    def concrete(self, events: list[Event]) -> Iterator[Fault]:
        for event in events:
            yield Drop(**one_message(event))

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Losing(self, name, injection)


class _Losing(LossyLink[Loss]):
    def verdict(self, message: Message, nth: int, time_s: float) -> rules.Ruling | None:
        stream = self.injection.stream(self.item.id, message, nth)
        if stream.random() >= self.item.probability:
            return None
        return rules.Drop("loss", kind="loss", item=self.name, nth=nth)


@drawn("loss")
def one(choices: Choices, stream: random.Random) -> list[Loss]:
    src, dst = choices.link(stream)
    probability = choices.probability(stream, 0.2)
    return [Loss(src=src, dst=dst, probability=probability, id=choices.id())]
