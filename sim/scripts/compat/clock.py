"""The ``time`` module of a simulated process: virtual time.

A clock read lets a microsecond pass and other tasks run, so that a loop that polls makes progress: see
:mod:`squall.sim.world.looks`. Imports no torch.
"""

from __future__ import annotations

import time as real_time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from squall.real.runtime import current_task, current_task_or_none
from squall.sim.scripts.compat.described import builtin
from squall.sim.scripts.compat.facades import Facade

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace
    from squall.sim.world.scheduler import SimRuntime

#: the wall clock when a simulation starts: 2024-01-01 00:00:00 UTC
EPOCH_S = 1_704_067_200
#: what ``time.monotonic`` and ``time.perf_counter`` say when a simulation starts
BOOT_S = 1000
_NS = 1_000_000_000
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


@builtin
def time() -> float:
    return EPOCH_S + _read()


@builtin
def time_ns() -> int:
    return EPOCH_S * _NS + round(_read() * _NS)


@builtin
def monotonic() -> float:
    return BOOT_S + _read()


@builtin
def perf_counter() -> float:
    return BOOT_S + _read()


@builtin
def monotonic_ns() -> int:
    return BOOT_S * _NS + round(_read() * _NS)


@builtin
def perf_counter_ns() -> int:
    return BOOT_S * _NS + round(_read() * _NS)


@builtin
def process_time() -> float:
    return _read()


@builtin
def thread_time() -> float:
    return _read()


@builtin
def process_time_ns() -> int:
    return round(_read() * _NS)


@builtin
def thread_time_ns() -> int:
    return round(_read() * _NS)


@builtin
def sleep(seconds: float, /) -> None:
    """Let ``seconds`` of virtual time pass. Raises TypeError and ValueError as Python does."""
    if not hasattr(seconds, "__float__") and not hasattr(seconds, "__index__"):
        raise TypeError(f"{type(seconds).__name__!r} object cannot be interpreted as an integer")
    delay = float(seconds)
    if delay < 0:
        raise ValueError("sleep length must be non-negative")
    if delay != delay:
        raise ValueError("Invalid value NaN (not a number)")
    current_task().runtime.sleep(delay)


@builtin
def localtime(seconds: float | None = None, /) -> real_time.struct_time:
    return real_time.localtime(time() if seconds is None else seconds)


@builtin
def gmtime(seconds: float | None = None, /) -> real_time.struct_time:
    return real_time.gmtime(time() if seconds is None else seconds)


@builtin
def ctime(seconds: float | None = None, /) -> str:
    return real_time.ctime(time() if seconds is None else seconds)


@builtin
def asctime(when: Any = None, /) -> str:
    return real_time.asctime(localtime() if when is None else when)


@builtin
def strftime(format: str, when: Any = None, /) -> str:
    return real_time.strftime(format, localtime() if when is None else when)


@builtin
def clock_gettime(clock: int, /) -> float:
    return (EPOCH_S if clock == real_time.CLOCK_REALTIME else BOOT_S) + _read()


@builtin
def clock_gettime_ns(clock: int, /) -> int:
    start = EPOCH_S if clock == real_time.CLOCK_REALTIME else BOOT_S
    return start * _NS + round(_read() * _NS)


def make_time(space: ModuleSpace) -> ModuleType:
    return Facade(
        space,
        real_time,
        {
            "asctime": asctime,
            "clock_gettime": clock_gettime,
            "clock_gettime_ns": clock_gettime_ns,
            "ctime": ctime,
            "gmtime": gmtime,
            "localtime": localtime,
            "monotonic": monotonic,
            "monotonic_ns": monotonic_ns,
            "perf_counter": perf_counter,
            "perf_counter_ns": perf_counter_ns,
            "process_time": process_time,
            "process_time_ns": process_time_ns,
            "sleep": sleep,
            "strftime": strftime,
            "thread_time": thread_time,
            "thread_time_ns": thread_time_ns,
            "time": time,
            "time_ns": time_ns,
        },
    )
