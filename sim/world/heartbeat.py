"""Promises to whoever watches over this process from outside that something will happen again within some
seconds. Where nobody watches, they are nothing."""

from __future__ import annotations

from collections.abc import Callable

#: instead of seconds: a signal has been heard
HEARD = -1.0
_promise: Callable[[float], object] | None = None


def begin(promise: Callable[[float], object] | None) -> None:
    """From now on, tell ``promise`` how many seconds it may take until the next time; None: nobody."""
    global _promise
    _promise = promise


def promise(seconds: float) -> None:
    """Within so many seconds of real time this is called again; infinite: it need not be. Or :data:`HEARD`."""
    if _promise is not None:
        _promise(seconds)
