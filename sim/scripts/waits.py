"""Questions of processes that are answered once something is so, or it is too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from squall.sim.world.primitives import SimTimer
from squall.sim.world.scheduler import SimRuntime

#: what an answer would be; None as long as there is none
Find = Callable[[], tuple[Any] | None]


class Coordinator(Protocol):
    """Who answers what processes ask. A process is ``alive`` until it has ended; what a question is, the
    coordinator knows."""

    runtime: SimRuntime
    #: by the first word of a question: given the process, the question, and the rest of its words
    answers: dict[str, Callable[..., None]]

    def answer(self, worker: Any, question: Any, value: Any) -> None: ...

    def say(self, worker: Any, question: Any, what: Callable[[], None]) -> None:
        """Call ``what`` in the name of the process that has asked, as it gets its answer."""


@dataclass(eq=False)
class _Wait:
    worker: Any
    question: Any
    find: Find
    timer: SimTimer | None = None


class Waits:
    """Of one kind; first come, first served."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._waits: list[_Wait] = []

    def until(
        self,
        worker: Any,
        question: Any,
        find: Find,
        timeout_s: float | None = None,
        late: Callable[[], object] = lambda: None,
    ) -> None:
        """Answer with what ``find`` finds, or after ``timeout_s`` seconds of virtual time with what ``late``
        gives; 0: at once."""
        found = find()
        if found is not None:
            self._coordinator.answer(worker, question, found[0])
            self.look()  # what was found may be gone for others, and there is room for more
        elif timeout_s is not None and timeout_s <= 0:
            self._coordinator.answer(worker, question, late())
        else:
            wait = _Wait(worker, question, find)
            self._waits.append(wait)
            if timeout_s is not None:

                def over() -> None:
                    self._waits.remove(wait)
                    self._coordinator.answer(worker, question, late())

                wait.timer = self._coordinator.runtime.call_later(timeout_s, over)

    def look(self) -> None:
        """Something has changed."""
        for wait in [each for each in self._waits if not each.worker.alive]:
            self._end(wait)
        while True:
            for wait in self._waits:
                found = wait.find()
                if found is not None:
                    self._end(wait)
                    self._coordinator.answer(wait.worker, wait.question, found[0])
                    break
            else:
                return

    def _end(self, wait: _Wait) -> None:
        self._waits.remove(wait)
        if wait.timer is not None:
            wait.timer.cancel()
