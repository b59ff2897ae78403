"""A story about a node of several results, whose gradients come in any order: undefined ones, and such
as somebody else has, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import stories_of
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told

label_module(__name__, "outputs")
story = stories_of(__name__, rank=112)

_MOST = 4
#: what may be done with a result, up to so many times
USES = ("nothing", "defined", "undefined", "shared")
_TIMES = 3


class _Rows(torch.autograd.Function):
    """The rows of a matrix, by one node that may be given None for a row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, materialize: bool) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(materialize)
        ctx.shape = x.shape[1:]
        return tuple(row.clone() for row in x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor, None]:
        zeros = torch.zeros(ctx.shape, dtype=torch.float64)
        return torch.stack([zeros if grad is None else grad for grad in grads]), None


class _Undefined(torch.autograd.Function):
    """The sum, which says of no gradient what it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        return None


#: a matrix as its rows, by different nodes
NODES: tuple[Callable[[Tensor], Sequence[Tensor]], ...] = (
    torch.unbind,
    lambda x: x.split(1),
    lambda x: _Rows.apply(x, True),  # type: ignore[no-untyped-call]
    lambda x: _Rows.apply(x, False),  # type: ignore[no-untyped-call]
)


def _loss(
    x: Tensor, beside: Sequence[Tensor], node: int, uses: Sequence[int], order: int
) -> Tensor:
    """A sum over what is done with the rows of ``x``, the last term the first to be gone through
    backward; ``order`` numbers a permutation of the rows. What is "shared" gives the same tensor to
    a row and to one of ``beside``."""
    rows = list(enumerate(zip(NODES[node](x), uses, strict=True)))
    loss = x.sum() * 0
    while rows:
        order, at = divmod(order, len(rows))
        row, (each, use) = rows.pop(at)
        for time in range(_TIMES):
            how = USES[use // len(USES) ** time % len(USES)]
            if how == "defined":
                loss = loss + (each * (row + time + 2)).sum()
            elif how == "undefined":
                loss = loss + _Undefined.apply(each)  # type: ignore[no-untyped-call]
            elif how == "shared":
                both = each.reshape(1, 2) + beside[row]
                loss = loss + (both * (row + time + 2)).sum()
    return loss


def gradients_of_rows(node: int, uses: tuple[int, ...], order: int) -> bool:
    """Whether the gradients of a matrix and of the rows beside it are what they are in one process."""

    def leaves() -> list[Tensor]:
        return [torch.ones(n, 2, dtype=torch.float64) for n in (len(uses), *[1] * len(uses))]

    here, there = ([leaf.requires_grad_() for leaf in leaves()] for _ in range(2))
    _loss(here[0], here[1:], node, uses, order).backward()
    with autograd.context() as context_id:
        autograd.backward(context_id, [_loss(there[0], there[1:], node, uses, order)])
        found = autograd.get_gradients(context_id)
    return all(
        torch.equal(found[b], a.grad) if a.grad is not None else b not in found
        for a, b in zip(here, there, strict=True)
    )


@story(
    "results of a node",
    numbers={
        "node": (0, len(NODES) - 1),
        "rows": (2, _MOST),
        "uses": (0, len(USES) ** (_TIMES * _MOST) - 1),
        "order": (0, math.factorial(_MOST) - 1),
    },
)
def results_of_a_node(to: int, node: int, rows: int, uses: int, order: int) -> str:
    """Gradients of the results of one node come in any order, undefined ones and such as others have,
    too."""
    each = tuple(uses // len(USES) ** (_TIMES * row) for row in range(rows))
    return told(gradients=rpc.rpc_sync(to, gradients_of_rows, args=(node, each, order)))
