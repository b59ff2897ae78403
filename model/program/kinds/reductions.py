"""What makes large values of small ones: squares, sums and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from squall.model.program.broadcasting import fit
from squall.model.program.kind import Kind
from squall.model.program.program import Op
from squall.model.program.sizes import Size, product, size, summed

_FEATURE = "reductions"


def _matmul(op: Op, x: Sequence[Tensor]) -> Tensor:
    a, b = x
    if a.dim() == 2 and b.dim() == 2 and a.shape[1] == b.shape[0] and a.dtype == b.dtype:
        return a @ b
    return a * fit(a, b)


def _matmul_sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    a, b = x
    if len(a.shape) == 2 and len(b.shape) == 2 and a.shape[1] == b.shape[0]:
        k = a.shape[1]
        return [
            size(
                (a.shape[0], b.shape[1]),
                k * a.most * b.most,
                k * (a.most * b.slope + b.most * a.slope) + 1,
            )
        ]
    return [product(a, b)]


KINDS = (
    Kind(
        name="square",
        # Each element times itself.
        run=lambda op, x: x[0] * x[0],
        sizes=lambda factor, x: [product(x[0], x[0])],
        features=(_FEATURE,),
        rank=10,
        gradients=(2,),
    ),
    Kind(
        name="sum",
        # The sum of all elements.
        run=lambda op, x: x[0].sum(),
        sizes=lambda factor, x: [summed(x[0])],
        features=(_FEATURE,),
        rank=11,
        builtin=torch.sum,
    ),
    Kind(
        name="matmul",
        # The matrix product where the two are matrices that fit together, else the product element by element.
        run=_matmul,
        sizes=_matmul_sizes,
        features=(_FEATURE,),
        rank=12,
        least=2,
        most=2,
    ),
)
