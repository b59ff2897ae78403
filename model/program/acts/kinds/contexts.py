"""Acts with autograd contexts: a leaf, what is computed from it on several workers, and passes."""

from __future__ import annotations

from squall.model.program.acts.act import CONTEXT, Act
from squall.model.program.acts.executor import At
from squall.model.program.acts.kind import Drawing, kinds_of

kind = kinds_of(__name__)


def _draw_context(drawing: Drawing) -> Act:
    acts = drawing.acts("in the context", in_context=True)
    if drawing.chance("another", 0.4):
        acts = (Act(kind="released"), *acts)
    # Without a pass at the end hardly anything of it would be seen.
    passes = [
        Act(kind="told", acts=(_draw_pass(drawing),))
        for _ in range(drawing.integer("passes", 1, 3))
    ]
    return Act(kind=CONTEXT, acts=(*acts, *passes))


@kind(CONTEXT, draw=_draw_context, takes={"acts"}, in_context=False, inner=False)
def context(act: Act, at: At) -> None:
    """An autograd context with a leaf; what its gradient is in the end, and what hooks told."""
    at.context(act.acts)


def _draw_times(drawing: Drawing) -> Act:
    return Act(kind="times", factor=drawing.integer("factor", 2, 3))


@kind("times", draw=_draw_times, takes={"factor"}, in_context=True, inner=False)
def times(act: Act, at: At) -> None:
    """The tensor of the context is multiplied."""
    at.multiply(act.factor)


def _draw_carried(drawing: Drawing) -> Act:
    worker = drawing.worker()
    return Act(
        kind="carried",
        worker=worker,
        how=drawing.how(),
        acts=drawing.acts("with the tensor", on=worker, in_creation=False),
    )


@kind("carried", draw=_draw_carried, takes={"worker", "how", "acts"}, in_context=True, inner=False)
def carried(act: Act, at: At) -> None:
    """The tensor goes to a worker, which does acts with it and gives back what it then has."""
    at.carry(act.worker, act.acts, act.how)


def _draw_hooked(drawing: Drawing) -> Act:
    return Act(
        kind="hooked",
        times=drawing.integer("times", 1, 3),
        acts=drawing.acts("in the hook", in_creation=False, inner=True),
    )


@kind("hooked", draw=_draw_hooked, takes={"times", "acts"}, in_context=True, inner=False)
def hooked(act: Act, at: At) -> None:
    """A hook of the tensor, which does acts the first times that a pass comes by."""
    at.hook(act.acts, act.times)


def _draw_pass(drawing: Drawing) -> Act:
    return Act(kind="pass", retain_graph=drawing.chance("retain graph", 0.6))


@kind("pass", draw=_draw_pass, takes={"retain_graph"}, in_context=True, inner=False)
def backward_pass(act: Act, at: At) -> None:
    """A backward pass from the sum of the tensor."""
    at.backward(act.retain_graph)


def _draw_released(drawing: Drawing) -> Act:
    return Act(kind="released")


@kind("released", draw=_draw_released)
def released(act: Act, at: At) -> None:
    """An autograd context that another task has begun is released here."""
    at.release_another()
