"""Workers that leave while others are at work."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Ability, Effect, Fault, Injection
from squall.sim.faults.kinds.fail import Fail
from squall.sim.faults.workers import WorkerEffect, WorkerFault

if TYPE_CHECKING:
    from squall.real.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(WorkerFault):
    """It calls ``rpc.shutdown``, whatever else it is doing. Only with ``graceful`` it waits for its
    peers there."""

    position: ClassVar[int] = 5
    needs: ClassVar[tuple[Ability, ...]] = ("inside",)

    kind: Literal["shutdown"] = "shutdown"
    graceful: bool = False

    def done_to(self, worker: str) -> str:
        peers = "waits for its peers" if self.graceful else "does not wait for its peers"
        return f"calls rpc.shutdown() on {worker}, which {peers}"

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Leaving(self, name, injection)


class _Leaving(WorkerEffect[Shutdown]):
    def happen(self, worker: Worker) -> None:
        item = self.item
        self.report(item.worker, "graceful" if item.graceful else "ungraceful")
        self.injection.host.shutdown_worker(item.worker, graceful=item.graceful)


@drawn("shutdown in a back-off")
def in_a_back_off(choices: Choices, stream: random.Random) -> list[Fault]:
    """A worker whose request waits to be sent again shuts down, or the one that it is for."""
    type, worker, moment = choices.back_off(stream)
    leaves = worker if stream.random() < 0.6 else choices.worker(stream)
    fails = Fail(types=(type,), src=worker, nth=choices.nth(stream, 3, 3), id=choices.id())
    return [fails, Shutdown(worker=leaves, graceful=False, **moment)]


@drawn("shutdown")
def one(choices: Choices, stream: random.Random) -> list[Shutdown]:
    worker = choices.worker(stream)
    return [Shutdown(worker=worker, graceful=False, **choices.moment(stream, worker))]
