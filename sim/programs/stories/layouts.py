"""Stories about the layouts of leaves and of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from squall.model.program.stories import stories_of
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told

label_module(__name__, "layouts")
story = stories_of(__name__, rank=110)


def gradients_in_turn(passes: int, sparse: int) -> list[list[float]]:
    """What passes add up to of which some, as the bits say, give a table a sparse gradient."""
    table = torch.ones(3, 2, requires_grad=True)
    with autograd.context() as context_id:
        for number in range(passes):
            rows = functional.embedding(torch.tensor([0, 1, 0]), table, sparse=True)
            loss = rows.sum() if sparse >> number & 1 else (table * 10).sum()
            autograd.backward(context_id, [loss])
        gradient = autograd.get_gradients(context_id)[table]
        found: list[list[float]] = gradient.to_dense().tolist()
        return found


@story(
    "layouts in turn",
    numbers={"passes": (1, 4), "sparse": (0, 15)},
    port_only="PyTorch's engine loses a dense gradient that comes after a sparse one "
    "(docs/findings.md, sparse-then-dense)",
)
def layouts_in_turn(to: int, passes: int, sparse: int) -> str:
    """Gradients of several passes, some of them sparse and in any order, add up."""
    sparse &= (1 << passes) - 1
    rows, dense = sparse.bit_count(), 10.0 * (passes - sparse.bit_count())
    wanted = [[dense + times * rows] * 2 for times in (2, 1, 0)]
    return told(added=rpc.rpc_sync(to, gradients_in_turn, args=(passes, sparse)) == wanted)


#: a matrix of numbers from 0 on in different layouts: of size, and of distance in memory
LAYOUTS: tuple[Callable[[], Tensor], ...] = (
    lambda: torch.arange(6.0).reshape(3, 2),
    lambda: torch.arange(6.0).reshape(2, 3).t(),
    lambda: torch.arange(12.0).reshape(3, 4)[:, ::2],
    lambda: torch.arange(2.0).expand(3, 2),
    lambda: torch.arange(8.0)[2:].reshape(3, 2),
    lambda: torch.arange(3.0).unsqueeze(1).expand(3, 2),
)


class _GradientInLayout(torch.autograd.Function):
    """The sum of a matrix, whose gradient has the layout of that number; ``kept``: somebody else
    has it, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: int, kept: list[Tensor] | None) -> Tensor:
        ctx.given = layout, kept
        return x.sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        layout, kept = ctx.given
        made = LAYOUTS[layout]()
        if kept is not None:
            kept.append(made)
        return made, None, None


def gradient_in_layouts(leaf: int, layouts: tuple[int, ...], keep: bool) -> bool:
    """Whether a leaf's gradient is, pass by pass, what it is in one process: numbers and strides.

    What somebody else keeps of a gradient is left as it is.
    """
    here, there = LAYOUTS[leaf]().requires_grad_(), LAYOUTS[leaf]().requires_grad_()
    kept: list[Tensor] | None = [] if keep else None
    with autograd.context() as context_id:
        for layout in layouts:
            loss = _GradientInLayout.apply(here, layout, None)  # type: ignore[no-untyped-call]
            loss.backward()
            loss = _GradientInLayout.apply(there, layout, kept)  # type: ignore[no-untyped-call]
            autograd.backward(context_id, [loss])
            wanted, found = here.grad, autograd.get_gradients(context_id)[there]
            assert wanted is not None
            if found.stride() != wanted.stride() or not torch.equal(found, wanted):
                return False
    return all(
        torch.equal(each, LAYOUTS[layout]())
        for layout, each in zip(layouts, kept or (), strict=False)
    )


@story(
    "layouts of a leaf",
    numbers={"leaf": (0, 5), "first": (0, 5), "second": (0, 6), "keep": (0, 1)},
)
def layouts_of_a_leaf(to: int, leaf: int, first: int, second: int, keep: int) -> str:
    """A leaf and what is added up for it have the layouts that they have in one process."""
    layouts = (first,) if second == len(LAYOUTS) else (first, second)
    return told(layouts=rpc.rpc_sync(to, gradient_in_layouts, args=(leaf, layouts, bool(keep))))
