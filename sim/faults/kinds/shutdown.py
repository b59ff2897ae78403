"""Workers that leave while others are at work."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from squall.real.worker import Worker
from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Ability, Effect, Injection
from squall.sim.faults.workers import WorkerEffect, WorkerFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(WorkerFault):
    """It calls ``rpc.shutdown``, whatever else it is doing; unless ``graceful``, peers are not
    waited for."""

    position: ClassVar[int] = 5
    needs: ClassVar[tuple[Ability, ...]] = ("inside",)

    kind: Literal["shutdown"] = "shutdown"
    graceful: bool = False

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Leaving(self, name, injection)


class _Leaving(WorkerEffect[Shutdown]):
    def happen(self, worker: Worker) -> None:
        item = self.item
        self.report(item.worker, "graceful" if item.graceful else "ungraceful")
        self.injection.host.shutdown_worker(item.worker, graceful=item.graceful)


@drawn("shutdown")
def one(choices: Choices, stream: random.Random) -> list[Shutdown]:
    worker = choices.worker(stream)
    return [Shutdown(worker=worker, graceful=False, **choices.moment(stream, worker))]
