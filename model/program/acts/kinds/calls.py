"""Acts that call a worker, which does other acts."""

from __future__ import annotations

from squall.model.program.acts.act import Act
from squall.model.program.acts.executor import At
from squall.model.program.acts.kind import Drawing, kinds_of

kind = kinds_of(__name__)


def _called(drawing: Drawing, worker: int) -> tuple[Act, ...]:
    return drawing.acts("called", on=worker, in_context=False, in_creation=False, inner=False)


def _draw_sync(drawing: Drawing) -> Act:
    worker = drawing.worker()
    return Act(kind="sync", worker=worker, limit_s=drawing.limit_s(), acts=_called(drawing, worker))


@kind("sync", draw=_draw_sync, takes={"worker", "limit_s", "acts"})
def sync(act: Act, at: At) -> None:
    """``rpc_sync``."""
    at.call(act.worker, act.acts, act.limit_s, how="sync")


def _draw_async(drawing: Drawing) -> Act:
    worker = drawing.worker()
    return Act(
        kind="async",
        worker=worker,
        limit_s=drawing.limit_s(),
        acts=_called(drawing, worker),
        then=drawing.acts("meanwhile", least=0),
    )


@kind("async", draw=_draw_async, takes={"worker", "limit_s", "acts", "then"})
def asynchronous(act: Act, at: At) -> None:
    """``rpc_async``; other acts meanwhile; then its ``wait``."""
    pending = at.call(act.worker, act.acts, act.limit_s)
    at.do(act.then)
    pending.wait()


def _draw_forgotten(drawing: Drawing) -> Act:
    worker = drawing.worker()
    return Act(
        kind="forgotten", worker=worker, limit_s=drawing.limit_s(), acts=_called(drawing, worker)
    )


@kind("forgotten", draw=_draw_forgotten, takes={"worker", "limit_s", "acts"})
def forgotten(act: Act, at: At) -> None:
    """``rpc_async`` for whose end nobody waits."""
    at.call(act.worker, act.acts, act.limit_s)


def _draw_chained(drawing: Drawing) -> Act:
    worker = drawing.worker()
    return Act(
        kind="chained",
        worker=worker,
        limit_s=drawing.limit_s(),
        times=drawing.integer("callbacks", 1, 2),
        acts=_called(drawing, worker),
        then=drawing.acts("called back", least=0, in_context=False, in_creation=False, inner=True),
    )


@kind("chained", draw=_draw_chained, takes={"worker", "limit_s", "times", "acts", "then"})
def chained(act: Act, at: At) -> None:
    """``rpc_async`` with a callback that does acts, and another one after that, and so on; then
    the ``wait`` of the last."""
    pending = at.call(act.worker, act.acts, act.limit_s)
    for _ in range(act.times):
        pending = pending.then(act.then)
    pending.wait()


def _draw_later(drawing: Drawing) -> Act:
    worker = drawing.worker()
    return Act(
        kind="later",
        worker=worker,
        seconds=drawing.seconds(),
        limit_s=drawing.limit_s(),
        acts=drawing.acts("later", on=worker, in_context=False, in_creation=False, inner=True),
    )


@kind("later", draw=_draw_later, takes={"worker", "seconds", "limit_s", "acts"})
def later(act: Act, at: At) -> None:
    """``rpc_sync`` of an ``async_execution`` function: its future is completed after some seconds,
    by another thread, which then does acts."""
    at.call_later(act.worker, act.acts, act.seconds, act.limit_s)
