"""Workers on a slow processor."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Injection
from squall.sim.faults.limits import Factor, Seconds
from squall.sim.faults.workers import WorkerEffect, WorkerFault
from squall.sim.world.processes import processes_of

if TYPE_CHECKING:
    from squall.real.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowCpu(WorkerFault):
    """For ``for_s`` (None: until ``heal_s``) each step of its tasks takes ``factor`` times 10 µs. Without
    this fault a step takes no time. What it computes (``--compute``) takes ``factor`` times as long."""

    position: ClassVar[int] = 3

    kind: Literal["slow_cpu"] = "slow_cpu"
    factor: Factor
    for_s: Seconds | None = None

    def done_to(self, worker: str) -> str:
        for_s = "" if self.for_s is None else f", for {self.for_s:g} s"
        return f"slows down {worker}: a step takes {self.factor:g} times 10 µs{for_s}"

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Slowing(self, name, injection)


class _Slowing(WorkerEffect[SlowCpu]):
    def __init__(self, item: SlowCpu, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        self._processes = processes_of(injection.runtime)
        #: those that it has slowed down: a process, and one that took its place
        self._slowed: list[Worker] = []

    def happen(self, worker: Worker) -> None:
        self.report(self.item.worker, self.item.factor)
        self._slowed.append(worker)
        self._processes.slow(worker, self.item.factor)
        if self.item.for_s is not None:
            self.injection.later(self.item.for_s, partial(self._processes.slow, worker, 0.0))

    def heal(self) -> None:
        for worker in self._slowed:
            self._processes.slow(worker, 0.0)


@drawn("slow cpu", mild=True)
def one(choices: Choices, stream: random.Random) -> list[SlowCpu]:
    factor = round(10 ** stream.uniform(0, 1.5 if choices.is_mild else 3), 2)
    for_s = stream.choice((None, choices.for_s(stream)))
    worker = choices.worker(stream)
    return [SlowCpu(worker=worker, factor=factor, for_s=for_s, at_s=choices.at_s(stream))]
