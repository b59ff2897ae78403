"""What collectives and sends have in common: work handles."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import torch

from squall.real.future import Future
from squall.real.runtime import Task, current_task
from squall.sim.scripts.compat.clock import look
from squall.sim.scripts.unended import note, over
from squall.sim.world.stack_reading import works


class Message(NamedTuple):
    """One from point to point: told that somebody waits for it, and for how many seconds if he says so."""

    limit: Callable[[float | None], object]


class Work:
    """What an asynchronous collective returns, or a message: that does not say that it is over before somebody has
    waited for it, and its limit counts from there."""

    def __init__(self, future: Future[Any], task: Task, message: Message | None = None) -> None:
        """``task``: which does it."""
        self._future = future
        self.task = task
        self._message = message
        self._until_waited = message is not None
        note("operations", self)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks until done. Raises what went wrong, and RuntimeError if it takes longer than ``timeout``."""
        over(self)
        limit_s = timeout.total_seconds() if timeout else None
        if self._message is not None and self._until_waited:
            self._message.limit(limit_s)
            limit_s = None
        if not self._future.block(limit_s):
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


def in_background(action: Callable[[], Any], message: Message | None = None) -> Work:
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
    return Work(future, task, message)


works(__name__, "Work.wait", lambda frame: getattr(frame.f_locals["self"].task, "id", None))
