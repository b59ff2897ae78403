"""Workers that start later than the others."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from squall.model.events.names import worker_named
from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Fault, Group, Injection
from squall.sim.faults.limits import Rank, Seconds
from squall.sim.faults.on_stock import StockSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStart(Fault):
    """Its process starts ``delay_s`` after those of the others."""

    group: ClassVar[Group] = "workers"
    position: ClassVar[int] = 4

    kind: Literal["slow_start"] = "slow_start"
    worker: Rank
    delay_s: Seconds

    def told(self, names: Mapping[int, str]) -> str:
        worker = worker_named(names, self.worker)
        return f"starts the process of {worker} {self.delay_s:g} s after the others"

    def on_stock(self, settings: StockSettings) -> str | None:
        before = settings.start_delays_s.get(self.worker, 0.0)
        settings.start_delays_s[self.worker] = before + self.delay_s
        return ""

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _StartingLate(self, name, injection)


class _StartingLate(Effect[SlowStart]):
    def start_delay_s(self, rank: int) -> float:
        if rank != self.item.worker:
            return 0.0
        self.report(rank, self.item.delay_s)
        return self.item.delay_s


@drawn("slow start", mild=True)
def one(choices: Choices, stream: random.Random) -> list[SlowStart]:
    delay_s = round(10 ** stream.uniform(-3, 0.5), 6)
    return [SlowStart(worker=choices.worker(stream), delay_s=delay_s)]
