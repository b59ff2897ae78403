"""The real scalar sum of everything, from which backward passes start."""

from __future__ import annotations

from collections.abc import Sequence

from squall.model.program.broadcasting import total
from squall.model.program.kind import MANY, Kind
from squall.model.program.sizes import Size


def _sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    return [
        Size((), 1, sum(a.most * a.elements for a in x), sum(a.slope * a.elements for a in x) + 1)
    ]


KINDS = (
    Kind(
        name="total",
        # The real sum of all elements of all inputs, from which backward passes start.
        run=lambda op, x: total(x),
        sizes=_sizes,
        rank=110,
        most=MANY,
        is_root=True,
        simple=True,
    ),
)
