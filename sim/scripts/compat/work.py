"""What collectives and sends have in common: work handles."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from squall.real.future import Future
from squall.real.runtime import Task, current_task
from squall.sim.scripts.compat.clock import look
from squall.sim.scripts.made import note, over
from squall.sim.world.stack_reading import works


class Work:
    """What an asynchronous collective returns. ``until_waited``: it does not say that it is over before
    somebody has waited for it, as gloo's sends and receives."""

    def __init__(self, future: Future[Any], task: Task, until_waited: bool = False) -> None:
        """``task``: which does it."""
        self._future = future
        self.task = task
        self._until_waited = until_waited
        note("operations", self)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks until done. Raises what went wrong, and RuntimeError if it takes longer than ``timeout``."""
        over(self)
        if not self._future.block(timeout.total_seconds() if timeout else None):
            raise RuntimeError("Operation timed out!")
        self._future.value()
        self._until_waited = False
        return True

    def is_completed(self) -> bool:
        over(self)
        # Whoever polls lets the others run.
        look()
        return self._future.done() and not self._until_waited

    def is_success(self) -> bool:
        return self._future.done() and self._future.error is None

    def exception(self) -> BaseException | None:
        return self._future.error

    def get_future(self) -> Future[Any]:
        over(self)
        return self._future

    def result(self) -> Any:
        over(self)
        return self._future.value()


def in_background(action: Callable[[], Any], *, until_waited: bool = False) -> Work:
    future: Future[Any] = Future(what="a collective")

    def run() -> None:
        try:
            with torch.no_grad():
                result = action()
        except Exception as error:
            future.set_error(error)
        else:
            future.mark_completed(result)

    task = current_task().runtime.spawn(run, name="collective")
    return Work(future, task, until_waited)


works(__name__, "Work.wait", lambda frame: getattr(frame.f_locals["self"].task, "id", None))
