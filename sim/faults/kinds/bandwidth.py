"""Links that carry only so much for a while."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Injection
from squall.sim.faults.links import LateLink, LinkFault

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(LinkFault):
    """The link carries ``bytes_per_s``, one message after the other."""

    position: ClassVar[int] = 2

    kind: Literal["bandwidth"] = "bandwidth"
    bytes_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    def done_to(self, links: str) -> str:
        return f"lets {links} carry {self.bytes_per_s:g} bytes/s"

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Narrow(self, name, injection)


class _Narrow(LateLink[Bandwidth]):
    def __init__(self, item: Bandwidth, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        #: by link: when it has carried all that was sent
        self._free_at_s: dict[tuple[int, int], float] = {}

    def arrival_s(self, message: Message, sent_s: float, arrives_s: float) -> float:
        link = message.src, message.dst
        start_s = max(sent_s, self._free_at_s.get(link, 0.0))
        done_s = start_s + message.size_bytes / self.item.bytes_per_s
        self._free_at_s[link] = done_s
        return arrives_s + (done_s - sent_s)


@drawn("bandwidth", mild=True)
def one(choices: Choices, stream: random.Random) -> list[Bandwidth]:
    src, dst = choices.link(stream)
    rate = 10 ** stream.uniform(4.5 if choices.is_mild else 3.0, 6.0)
    return [Bandwidth(src=src, dst=dst, bytes_per_s=round(rate, 1))]
