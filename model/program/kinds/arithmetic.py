"""Multiples, sums and products: what every program has."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from squall.model.program.broadcasting import fit
from squall.model.program.kind import ALWAYS, Kind
from squall.model.program.program import Op
from squall.model.program.sizes import product_of_two, scaled, sum_of_two


def _add(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0] + fit(x[0], x[1])


KINDS = (
    Kind(
        name="scale",
        # The input times a factor.
        run=lambda op, x: x[0] * op.factor,
        sizes=scaled,
        features=(ALWAYS,),
        rank=0,
        builtin=torch.mul,
        factor="any",
        simple=True,
    ),
    Kind(
        name="add",
        # The sum of two tensors.
        run=_add,
        sizes=sum_of_two,
        features=(ALWAYS,),
        rank=1,
        least=2,
        most=2,
        builtin=torch.add,
        simple=True,
        shows=("broadcasting",),
    ),
    Kind(
        name="mul",
        # The product of two tensors, element by element.
        run=lambda op, x: x[0] * fit(x[0], x[1]),
        sizes=product_of_two,
        features=(ALWAYS,),
        rank=2,
        least=2,
        most=2,
        builtin=torch.mul,
        simple=True,
        shows=("broadcasting",),
    ),
)
