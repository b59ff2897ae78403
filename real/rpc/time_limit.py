"""What a caller may give as a limit of time."""

from __future__ import annotations

import math
from typing import Any

from squall.real.rpc.constants import NO_RPC_TIMEOUT


def seconds(timeout: Any) -> float:
    """A limit of time in seconds; one that never comes is none. Raises TypeError, and ValueError for nan."""
    kind = type(timeout)
    if kind is not float and kind is not int:
        if isinstance(timeout, str) or not hasattr(timeout, "__float__"):
            raise TypeError(f"timeout must be a number of seconds, but got {timeout!r}")
        timeout = float(timeout)
    if math.isfinite(timeout):
        return timeout  # type: ignore[no-any-return]
    if math.isnan(timeout):
        raise ValueError("timeout must be a number of seconds, but got nan")
    # A negative limit is over at once; -1 alone stands for the default.
    return NO_RPC_TIMEOUT if timeout > 0 else -2.0
