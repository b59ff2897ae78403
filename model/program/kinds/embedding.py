"""Lookups in a table, whose gradients are sparse."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from squall.model.program.kind import Kind
from squall.model.program.program import Op
from squall.model.program.sizes import Size, like


def _embedding(op: Op, x: Sequence[Tensor]) -> Tensor:
    rows = x[0].shape[0]
    # One of the rows is looked up twice.
    indices = torch.tensor([op.factor % rows, (op.factor + 1) % rows, op.factor % rows])
    return functional.embedding(indices, x[0], sparse=True)


def _sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    return [like(x[0], (3, x[0].shape[1]), 2)]


KINDS = (
    Kind(
        name="embedding",
        # Three rows of a table, one of them twice: the gradient of the table is sparse.
        run=_embedding,
        sizes=_sizes,
        features=("embedding",),
        rank=90,
        factor="positive",
        takes_table=True,
        shows=("sparse gradient",),
    ),
)
