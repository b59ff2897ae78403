"""Collections of cyclic garbage."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Effect, Group, Injection
from squall.sim.faults.workers import WorkerEffect, WorkerFault

if TYPE_CHECKING:
    from squall.real.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage(WorkerFault):
    """Python's garbage collector runs at that moment. All workers share one heap, so it collects
    the garbage of all; in the trace it is an event of ``worker``."""

    group: ClassVar[Group] = "inner"
    position: ClassVar[int] = 4

    kind: Literal["garbage"] = "garbage"

    def done_to(self, worker: str) -> str:
        return f"collects garbage on {worker}"

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Collecting(self, name, injection)


class _Collecting(WorkerEffect[Garbage]):
    def happen(self, worker: Worker) -> None:
        self.report(self.item.worker, None)
        self.injection.host.collect_garbage(self.item.worker)


@drawn("garbage", mild=True, light="unnoticed")
def some(choices: Choices, stream: random.Random) -> list[Garbage]:
    worker = choices.worker(stream)
    return [Garbage(worker=worker, **choices.moment(stream, worker)) for _ in choices.items(stream)]
