"""Workers whose clock is wrong."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from squall.model.events.names import worker_named
from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Fault, Group, Injection
from squall.sim.faults.limits import MOST, Factor, Rank
from squall.sim.world.processes import Clock

if TYPE_CHECKING:
    from squall.real.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSkew(Fault):
    """Its clock is ``offset_s`` ahead of the others and runs ``rate`` times as fast. With a ``rate``
    above 1 its timeouts come earlier, below 1 later. When faults end the clock keeps its offset
    and runs as fast as the others."""

    group: ClassVar[Group] = "inner"
    position: ClassVar[int] = 5

    kind: Literal["clock_skew"] = "clock_skew"
    worker: Rank
    offset_s: Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)] = 0.0
    rate: Factor = 1.0

    def told(self, names: Mapping[int, str]) -> str:
        worker = worker_named(names, self.worker)
        rate = f", {self.rate:g} times as fast" if self.rate != 1 else ""
        return f"sets the clock of {worker} ahead by {self.offset_s:g} s{rate}"

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Skewing(self, name, injection)


class _Skewing(Effect[ClockSkew]):
    def __init__(self, item: ClockSkew, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        self._clock = Clock(item.offset_s, item.rate)
        self.report(item.worker, (item.offset_s, item.rate))

    def prepare(self, rank: int, worker: Worker) -> None:
        if rank != self.item.worker:
            return
        runtime = self.injection.runtime
        if runtime.clocks is None:
            runtime.clocks = {}
        runtime.clocks[worker] = self._clock

    def heal(self) -> None:
        runtime = self.injection.runtime
        skewed, self._clock = self._clock, self._clock.healed(runtime.env.now)
        for worker, clock in (runtime.clocks or {}).items():
            if clock is skewed:
                runtime.clocks[worker] = self._clock  # type: ignore[index]


@drawn("clock skew", mild=True)
def one(choices: Choices, stream: random.Random) -> list[ClockSkew]:
    rate = stream.choice((1.0, 0.5, 1.5) if choices.is_mild else (1.0, 0.5, 2.0, 5.0))
    offset_s = round(stream.uniform(0, 100), 3)
    return [ClockSkew(worker=choices.worker(stream), offset_s=offset_s, rate=rate)]
