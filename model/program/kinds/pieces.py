"""Tensors put together and taken apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from squall.model.program.kind import Kind
from squall.model.program.program import Op
from squall.model.program.sizes import Size, like, size

_FEATURE = "pieces"


def _cat(op: Op, x: Sequence[Tensor]) -> Tensor:
    return torch.cat([x[0].reshape(-1), x[1].reshape(-1)])


def _cat_sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    a, b = x
    return [size((a.elements + b.elements,), max(a.most, b.most), a.slope + b.slope + 1)]


def _rows(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0].sum(0) if x[0].dim() else x[0] * 1


def _rows_sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    a = x[0]
    return [like(a, a.shape[1:], max(a.shape[0], 1) if a.shape else 1)]


def _split(op: Op, x: Sequence[Tensor]) -> tuple[Tensor, ...]:
    flat = x[0].reshape(-1)
    half = flat.shape[0] // 2
    return tuple(flat.split([half, flat.shape[0] - half]))


def _split_sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    half = x[0].elements // 2
    return [like(x[0], (half,)), like(x[0], (x[0].elements - half,))]


KINDS = (
    Kind(
        name="cat",
        # The elements of both tensors in one row.
        run=_cat,
        sizes=_cat_sizes,
        features=(_FEATURE,),
        rank=40,
        least=2,
        most=2,
    ),
    Kind(
        name="rows",
        # The sum over the first dimension.
        run=_rows,
        sizes=_rows_sizes,
        features=(_FEATURE,),
        rank=41,
    ),
    Kind(
        name="split",
        # The first and the second half of the elements.
        run=_split,
        sizes=_split_sizes,
        features=(_FEATURE, "several outputs"),
        rank=52,
        outputs=2,
        shows=("view",),
    ),
)
