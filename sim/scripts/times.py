"""The functions of ``time`` in virtual time, on either engine. Imports no torch."""

from __future__ import annotations

import time as real_time
from collections.abc import Callable
from typing import Any

#: the wall clock when a simulation starts: 2024-01-01 00:00:00 UTC
EPOCH_S = 1_704_067_200
#: what ``time.monotonic`` and ``time.perf_counter`` say when a simulation starts
BOOT_S = 1000
#: by clock, what it says when a simulation starts
_STARTS = {
    "time": EPOCH_S,
    "monotonic": BOOT_S,
    "perf_counter": BOOT_S,
    "process_time": 0,
    "thread_time": 0,
}
_NS = 1_000_000_000


def functions(
    read: Callable[[], float], wait: Callable[[float], object], module: str
) -> dict[str, Any]:
    """By name. ``read``: the seconds since the start; ``wait``: lets so many pass; ``module``: what they say that
    they are defined in, by which they are pickled."""

    def seconds_of(start_s: int) -> Callable[[], float]:
        return lambda: start_s + read()

    def ns_of(start_s: int) -> Callable[[], int]:
        return lambda: start_s * _NS + round(read() * _NS)

    def broken_down(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda seconds=None, /: real(EPOCH_S + read() if seconds is None else seconds)

    def start_of(clock: int) -> int:
        return EPOCH_S if clock == real_time.CLOCK_REALTIME else BOOT_S

    def sleep(seconds: float, /) -> None:
        """Raises TypeError and ValueError as Python does."""
        if not hasattr(seconds, "__float__") and not hasattr(seconds, "__index__"):
            kind = type(seconds).__name__
            raise TypeError(f"{kind!r} object cannot be interpreted as an integer")
        delay_s = float(seconds)
        if delay_s < 0:
            raise ValueError("sleep length must be non-negative")
        if delay_s != delay_s:
            raise ValueError("Invalid value NaN (not a number)")
        wait(delay_s)

    asctime, strftime = real_time.asctime, real_time.strftime
    localtime = broken_down(real_time.localtime)
    found: dict[str, Any] = {
        **{name: seconds_of(start_s) for name, start_s in _STARTS.items()},
        **{f"{name}_ns": ns_of(start_s) for name, start_s in _STARTS.items()},
        **{name: broken_down(getattr(real_time, name)) for name in ("gmtime", "ctime")},
        "localtime": localtime,
        "asctime": lambda when=None, /: asctime(localtime() if when is None else when),
        "strftime": lambda form, when=None, /: strftime(
            form, localtime() if when is None else when
        ),
        "clock_gettime": lambda clock, /: seconds_of(start_of(clock))(),
        "clock_gettime_ns": lambda clock, /: ns_of(start_of(clock))(),
        "sleep": sleep,
    }
    for name, function in found.items():
        function.__module__, function.__name__, function.__qualname__ = module, name, name
    return found
