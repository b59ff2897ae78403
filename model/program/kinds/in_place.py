"""Changes in place, of a tensor and of a view of it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from squall.model.program.broadcasting import expands_to, fit_into
from squall.model.program.kind import Kind
from squall.model.program.program import Op
from squall.model.program.sizes import Size, summed


def _in_place(op: Op, x: Sequence[Tensor]) -> Tensor:
    result = x[0].clone()
    result.mul_(op.factor)
    result.add_(fit_into(result, x[1]))
    if result.dim() and result.shape[0]:
        first = result[0]
        first.mul_(2)
    return result


def _sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    a, b = x
    if not expands_to(b.shape, a.shape):
        b = summed(b)
    f = abs(factor)
    return [Size(a.shape, a.elements, 2 * (f * a.most + b.most), 2 * (f * a.slope + b.slope) + 1)]


KINDS = (
    Kind(
        name="in_place",
        # A copy that is changed in place: times a factor, plus the second input, and its first row doubled
        # through a view.
        run=_in_place,
        sizes=_sizes,
        features=("in-place",),
        rank=70,
        least=2,
        most=2,
        factor="any",
        shows=("in-place", "broadcasting"),
    ),
)
