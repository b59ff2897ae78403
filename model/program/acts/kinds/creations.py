"""Acts that make references, and use them."""

from __future__ import annotations

from squall.model.program.acts.act import Act
from squall.model.program.acts.executor import At
from squall.model.program.acts.kind import Drawing, kinds_of

kind = kinds_of(__name__)


def _draw_created(drawing: Drawing) -> Act:
    worker = drawing.worker()
    # First, since there may be no more acts left later; a reference that nobody uses shows little.
    then = drawing.acts("with the reference", in_creation=True)
    return Act(
        kind="created",
        worker=worker,
        limit_s=drawing.limit_s(),
        acts=drawing.acts("creation", on=worker, in_context=False, in_creation=False, inner=False),
        then=then,
    )


@kind("created", draw=_draw_created, takes={"worker", "limit_s", "acts", "then"})
def created(act: Act, at: At) -> None:
    """``remote``; other acts with the reference at hand; then it is dropped."""
    at.create(act.worker, act.acts, act.limit_s)
    try:
        at.do(act.then)
    finally:
        at.references.pop()


def _draw_fetched(drawing: Drawing) -> Act:
    return Act(kind="fetched", limit_s=drawing.limit_s())


@kind("fetched", draw=_draw_fetched, takes={"limit_s"}, in_creation=True)
def fetched(act: Act, at: At) -> None:
    """``to_here`` of the reference at hand."""
    at.fetch(act.limit_s)


def _draw_passed_on(drawing: Drawing) -> Act:
    worker = drawing.worker()
    return Act(
        kind="passed on",
        worker=worker,
        limit_s=drawing.limit_s(),
        acts=drawing.acts("given it", on=worker, in_context=False, in_creation=True, inner=False),
    )


@kind("passed on", draw=_draw_passed_on, takes={"worker", "limit_s", "acts"}, in_creation=True)
def passed_on(act: Act, at: At) -> None:
    """``rpc_sync`` with the reference at hand as an argument, which the callee has at hand."""
    at.call(act.worker, act.acts, act.limit_s, how="sync", with_reference=True)


def _draw_asked(drawing: Drawing) -> Act:
    return Act(
        kind="asked",
        how=drawing.how(),
        limit_s=drawing.limit_s(),
        acts=drawing.acts("asked", in_context=False, in_creation=False, inner=False),
    )


@kind("asked", draw=_draw_asked, takes={"how", "limit_s", "acts"}, in_creation=True, weight=4)
def asked(act: Act, at: At) -> None:
    """A method of the object that the reference at hand is to, by its proxy ``rpc_sync()``,
    ``rpc_async()`` or ``remote()``, which does acts where the object is."""
    at.ask(act.acts, act.limit_s, act.how)
