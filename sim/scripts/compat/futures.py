"""Futures of a script's calls, which tell whether anybody has waited for them. From then on they are as all others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from squall.real.future import Future
from squall.real.rpc import public
from squall.sim.scripts.unended import note, over
from squall.sim.world.places import tell_as

tell_as(__name__, "torch.distributed.rpc.api")


class _Unwaited(Future[Any]):
    """One that nobody has waited for, looked at, or wants to be called by."""

    __slots__ = ()

    def block(self, timeout: float | None = None) -> bool:
        return _used(self).block(timeout)

    def raw_value(self) -> Any:
        return _used(self).raw_value()

    def done(self) -> bool:
        return _used(self).done()

    def has_error(self) -> bool:
        return _used(self).has_error()

    def add_callback(self, callback: Callable[[Future[Any]], object]) -> None:
        _used(self).add_callback(callback)

    add_done_callback = add_callback


def _used(future: Future[Any]) -> Future[Any]:
    """It, as all others are from now on: somebody may have its old methods still."""
    future.__class__ = Future
    over(future)
    return future


_Unwaited.__name__ = _Unwaited.__qualname__ = Future.__name__


@functools.wraps(public.rpc_async)
def rpc_async(*args: Any, **kwargs: Any) -> Future[Any]:
    future = public.rpc_async(*args, **kwargs)
    if type(future) is Future:
        future.__class__ = _Unwaited
        note("futures", future)
    return future


rpc_async.__module__ = __name__  # where whoever is sent it finds it
