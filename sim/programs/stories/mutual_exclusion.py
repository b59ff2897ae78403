"""Turns: what two stories must not do at the same time, one of them does after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from squall.real.future import Future
from squall.real.rpc import api as rpc
from squall.real.rpc.functions import async_execution
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.host import here

label_module(__name__, "turns")


@async_execution
def begin_turn(what: str) -> Future[None]:
    """A future that is done when whoever came before has ended their turn."""
    waiting = here().turns.setdefault(what, [])
    mine: Future[None] = Future()
    waiting.append(mine)
    if len(waiting) == 1:
        mine.set_result(None)
    return mine


def end_turn(what: str) -> None:
    """Let the next one begin."""
    waiting = here().turns[what]
    del waiting[0]
    if waiting:
        waiting[0].set_result(None)


@contextlib.contextmanager
def turn(worker: int, what: str) -> Iterator[None]:
    """A turn among all who ask ``worker`` for one. Waits without a limit of time."""
    rpc.rpc_sync(worker, begin_turn, args=(what,), timeout=0)
    try:
        yield
    finally:
        rpc.rpc_sync(worker, end_turn, args=(what,), timeout=0)
