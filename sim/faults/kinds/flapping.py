"""Links that are down again and again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Injection
from squall.sim.faults.limits import MOST, Cut, Problem, Seconds
from squall.sim.faults.links import LinkFault, LossyLink, cut_off
from squall.sim.faults.words import CUTS
from squall.sim.world import rules

if TYPE_CHECKING:
    from squall.real.rpc.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Flapping(LinkFault):
    """Time is divided into periods of ``period_s``. In each the link is down for the first ``down_s``."""

    position: ClassVar[int] = 4

    kind: Literal["flapping"] = "flapping"
    period_s: Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
    down_s: Seconds
    cut: Cut = "drop"

    def done_to(self, links: str) -> str:
        when = f"for the first {self.down_s:g} s of every {self.period_s:g} s"
        return f"cuts {links} {when} ({CUTS[self.cut]})"

    def problem(self) -> Problem | None:
        if self.down_s > self.period_s:
            return "down_s", f"{self.down_s} is above period_s, {self.period_s}"
        return LinkFault.problem(self)

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _UpAndDown(self, name, injection)


class _UpAndDown(LossyLink[Flapping]):
    def verdict(self, message: Message, nth: int, time_s: float) -> rules.Ruling | None:
        item = self.item
        into_s = (time_s - item.from_s) % item.period_s
        if into_s >= item.down_s:
            return None
        open_in_s = min(item.down_s - into_s, self.until_s - time_s)
        return cut_off(item.cut, item.kind, self.name, nth, open_in_s, message)


@drawn("flapping", mild=True)
def one(choices: Choices, stream: random.Random) -> list[Flapping]:
    src, dst = choices.link(stream)
    period_s = round(10 ** stream.uniform(-2.5, 0), 6)
    down_s = round(period_s * stream.uniform(0.05, 0.6), 6)
    cuts: tuple[Cut, ...] = ("hold",) if choices.is_mild else ("drop", "hold", "fail")
    cut = stream.choice(cuts)
    return [Flapping(src=src, dst=dst, period_s=period_s, down_s=down_s, cut=cut)]
