"""Three that need nothing: the input handed back, a difference, and what is positive."""

from __future__ import annotations

import torch

from squall.model.program.broadcasting import fit, real
from squall.model.program.kind import Kind
from squall.model.program.sizes import like, same, sum_of_two

_FEATURE = "plain"

KINDS = (
    Kind(
        name="pass",
        # The input itself, handed back.
        run=lambda op, x: x[0],
        sizes=same,
        features=(_FEATURE,),
        rank=30,
        returns_input=True,
        shows=("input handed back",),
    ),
    Kind(
        name="sub",
        # The difference of two tensors.
        run=lambda op, x: x[0] - fit(x[0], x[1]),
        sizes=sum_of_two,
        features=(_FEATURE,),
        rank=31,
        least=2,
        most=2,
        builtin=torch.sub,
        cancels=True,
        shows=("broadcasting",),
    ),
    Kind(
        name="relu",
        # What is positive, and zero elsewhere.
        run=lambda op, x: torch.relu(real(x[0])),
        sizes=lambda factor, x: [like(x[0], x[0].shape)],
        features=(_FEATURE,),
        rank=32,
    ),
)
