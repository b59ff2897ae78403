"""Workers that stand still for a while."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Injection
from squall.sim.faults.limits import Seconds
from squall.sim.faults.workers import WorkerEffect, WorkerFault
from squall.sim.world.processes import processes_of

if TYPE_CHECKING:
    from squall.real.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(WorkerFault):
    """Nothing of it runs for ``for_s`` (SIGSTOP, a long collection): messages queue up, and timers
    that expire meanwhile fire afterwards."""

    position: ClassVar[int] = 2

    kind: Literal["pause"] = "pause"
    for_s: Seconds

    def done_to(self, worker: str) -> str:
        return f"stops {worker}, for {self.for_s:g} s"

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Pausing(self, name, injection)


class _Paused(dict["Worker", int]):
    """By worker: how many items let it stand still."""


class _Pausing(WorkerEffect[Pause]):
    def __init__(self, item: Pause, name: str, injection: Injection) -> None:
        super().__init__(item, name, injection)
        self._processes = processes_of(injection.runtime)
        self._paused = injection.shared(_Paused)

    def happen(self, worker: Worker) -> None:
        self.report(self.item.worker, self.item.for_s)
        self._paused[worker] = self._paused.get(worker, 0) + 1
        self._processes.pause(worker)
        self.injection.later(self.item.for_s, partial(self._resume, worker))

    def _resume(self, worker: Worker) -> None:
        self._paused[worker] -= 1
        if not self._paused[worker]:  # of several pauses, the one that ends last
            self._processes.resume(worker)

    def heal(self) -> None:
        for worker in self._paused:
            self._processes.resume(worker)


@drawn("pause", mild=True)
def one(choices: Choices, stream: random.Random) -> list[Pause]:
    worker = choices.worker(stream)
    return [Pause(worker=worker, for_s=choices.for_s(stream), **choices.moment(stream, worker))]
