"""Questions of processes that are answered once something is so, or it is too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.primitives import SimTimer

#: what an answer would be; None as long as there is none
Find = Callable[[], tuple[Any] | None]


@dataclass(eq=False)
class _Wait:
    worker: NativeWorker
    question: int
    find: Find
    timer: SimTimer | None = None


class Waits:
    """Of one kind; first come, first served."""

    def __init__(self, cluster: NativeCluster) -> None:
        self._cluster = cluster
        self._waits: list[_Wait] = []

    def until(
        self,
        worker: NativeWorker,
        question: int,
        find: Find,
        timeout_s: float | None = None,
        late: Callable[[], object] = lambda: None,
    ) -> None:
        """Answer with what ``find`` finds, or after ``timeout_s`` seconds of virtual time with what ``late``
        gives; 0: at once."""
        found = find()
        if found is not None:
            self._cluster.answer(worker, question, found[0])
            self.look()  # what was found may be gone for others, and there is room for more
        elif timeout_s is not None and timeout_s <= 0:
            self._cluster.answer(worker, question, late())
        else:
            wait = _Wait(worker, question, find)
            self._waits.append(wait)
            if timeout_s is not None:

                def over() -> None:
                    self._waits.remove(wait)
                    self._cluster.answer(worker, question, late())

                wait.timer = self._cluster.runtime.call_later(timeout_s, over)

    def look(self) -> None:
        """Something has changed."""
        for wait in [each for each in self._waits if not each.worker.alive]:
            self._end(wait)
        while True:
            for wait in self._waits:
                found = wait.find()
                if found is not None:
                    self._end(wait)
                    self._cluster.answer(wait.worker, wait.question, found[0])
                    break
            else:
                return

    def _end(self, wait: _Wait) -> None:
        self._waits.remove(wait)
        if wait.timer is not None:
            wait.timer.cancel()
