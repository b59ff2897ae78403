"""The ``time`` module of a simulated process: virtual time.

A clock read lets a microsecond pass and other tasks run, so that a loop that polls makes progress: see
:mod:`squall.sim.world.polling_tasks`. Imports no torch.
"""

from __future__ import annotations

import time as real_time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from squall.real.runtime import current_task, current_task_or_none
from squall.sim.scripts.compat.module_facades import Facade
from squall.sim.scripts.compat.signatures import builtin
from squall.sim.scripts.times import EPOCH_S, functions

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace
    from squall.sim.world.scheduler import SimRuntime

#: key in ``Task.locals`` while the task calls code outside the simulation
_OUTSIDE = "outside"


def _read() -> float:
    """Virtual time in seconds. A scheduling point."""
    look()
    return current_task().runtime.now()


def look() -> None:
    """The running task asks for something that others change, perhaps again and again."""
    runtime: SimRuntime = current_task().runtime  # type: ignore[assignment]
    runtime.look()


def wall_time_s() -> float | None:
    """What ``time.time()`` says to the process of the running task; None outside every process."""
    task = current_task_or_none()
    if task is None or task.worker is None or task.locals.get(_OUTSIDE):
        return None
    return EPOCH_S + _read()


@contextmanager
def of_the_machine() -> Iterator[None]:
    """In this block dates are the machine's, and no scheduling points: for what the running task calls outside the
    simulation, such as the terminal or the notebook that its output goes to."""
    kept = {} if (task := current_task_or_none()) is None else task.locals
    before, kept[_OUTSIDE] = kept.get(_OUTSIDE, False), True
    try:
        yield
    finally:
        kept[_OUTSIDE] = before


#: found here by whoever unpickles one
_FUNCTIONS = {
    name: builtin(function)
    for name, function in functions(
        _read, lambda seconds: current_task().runtime.sleep(seconds), __name__
    ).items()
}
globals().update(_FUNCTIONS)


def make_time(space: ModuleSpace) -> ModuleType:
    return Facade(space, real_time, _FUNCTIONS)
