"""Two results, one of which does not depend on the first input."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from squall.model.program.broadcasting import fit
from squall.model.program.kind import Kind
from squall.model.program.program import Op
from squall.model.program.sizes import Size, like, product


def _pair(op: Op, x: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return x[0] * fit(x[0], x[1]), x[1] * op.factor


def _pair_sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    return [product(x[0], x[1]), like(x[1], x[1].shape, abs(factor))]


KINDS = (
    Kind(
        name="pair",
        # The product of both, and the second times a factor, which does not depend on the first.
        run=_pair,
        sizes=_pair_sizes,
        features=("several outputs",),
        rank=50,
        least=2,
        most=2,
        outputs=2,
        cuts=frozenset({(1, 0)}),
        gradients=(1, 2),
        factor="any",
    ),
)
