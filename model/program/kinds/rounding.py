"""What makes fractions of integers; for programs of mode float."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from squall.model.program.broadcasting import real
from squall.model.program.dtypes import DTYPES
from squall.model.program.kind import ALWAYS, Kind
from squall.model.program.program import Op
from squall.model.program.sizes import Size, same, squashed


def _cast(op: Op, x: Sequence[Tensor]) -> Tensor:
    dtype = DTYPES[op.dtype]
    if x[0].is_complex() and not dtype.is_complex:
        return real(x[0]).to(dtype)
    return x[0].to(dtype) if x[0].dtype != dtype else x[0].view_as(x[0])


def _mean(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0].mean() if x[0].numel() else x[0].sum()


KINDS = (
    Kind(
        name="tanh",
        # The hyperbolic tangent.
        run=lambda op, x: torch.tanh(real(x[0])),
        sizes=squashed,
        features=(ALWAYS,),
        rank=100,
        exact=False,
    ),
    Kind(
        name="cast",
        # The tensor in another dtype.
        run=_cast,
        sizes=same,
        features=(ALWAYS,),
        rank=101,
        exact=False,
        takes_dtype=True,
        shows=("cast",),
    ),
    Kind(
        name="sigmoid",
        # The logistic function.
        run=lambda op, x: torch.sigmoid(real(x[0])),
        sizes=squashed,
        features=(ALWAYS,),
        rank=102,
        exact=False,
    ),
    Kind(
        name="mean",
        # The mean of all elements.
        run=_mean,
        sizes=lambda factor, x: [Size((), 1, x[0].most, x[0].slope + 1)],
        features=(ALWAYS,),
        rank=103,
        exact=False,
    ),
)
