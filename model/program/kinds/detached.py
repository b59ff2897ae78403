"""Results that no gradient passes, alone or beside one that a gradient does pass."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from squall.model.program.kind import Kind
from squall.model.program.program import Op
from squall.model.program.sizes import Size, like

_FEATURE = "cuts"


def _mixed(op: Op, x: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return x[0] * op.factor, x[1].detach().clone()


def _mixed_sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    return [like(x[0], x[0].shape, abs(factor)), x[1]._replace(slope=1)]


KINDS = (
    Kind(
        name="mixed",
        # The first input times a factor, with a gradient, and a copy of the second without one.
        run=_mixed,
        sizes=_mixed_sizes,
        features=(_FEATURE,),
        rank=80,
        least=2,
        most=2,
        outputs=2,
        cuts=frozenset({(0, 1), (1, 0), (1, 1)}),
        factor="any",
        undefined=True,
        shows=("outputs with and without grad",),
    ),
    Kind(
        name="detach",
        # A copy through which no gradient passes.
        run=lambda op, x: x[0].detach().clone(),
        sizes=lambda factor, x: [x[0]._replace(slope=1)],
        features=(_FEATURE,),
        rank=81,
        cuts=frozenset({(0, 0)}),
        shows=("detach",),
    ),
)
