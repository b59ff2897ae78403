"""Views of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from squall.model.program.kind import Kind
from squall.model.program.program import Op
from squall.model.program.sizes import Size, like

_FEATURE = "views"
_SHOWS = ("view",)


def _transpose(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0].t() if x[0].dim() == 2 else x[0].view_as(x[0])


def _transpose_sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    shape = x[0].shape
    return [like(x[0], shape[::-1] if len(shape) == 2 else shape)]


def _narrow(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0][1:] if x[0].dim() else x[0].view_as(x[0])


def _narrow_sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    shape = x[0].shape
    return [like(x[0], (max(shape[0] - 1, 0), *shape[1:]) if shape else shape)]


KINDS = (
    Kind(
        name="flat",
        # The same elements in one dimension.
        run=lambda op, x: x[0].reshape(-1),
        sizes=lambda factor, x: [like(x[0], (x[0].elements,))],
        features=(_FEATURE,),
        rank=20,
        shows=_SHOWS,
    ),
    Kind(
        name="transpose",
        # The transpose of a matrix; of anything else a view of the same shape.
        run=_transpose,
        sizes=_transpose_sizes,
        features=(_FEATURE,),
        rank=21,
        shows=_SHOWS,
    ),
    Kind(
        name="narrow",
        # All rows but the first.
        run=_narrow,
        sizes=_narrow_sizes,
        features=(_FEATURE,),
        rank=22,
        shows=_SHOWS,
    ),
    Kind(
        name="expand",
        # The tensor twice, one below the other, in the memory of one.
        run=lambda op, x: x[0].expand(2, *x[0].shape),
        sizes=lambda factor, x: [like(x[0], (2, *x[0].shape))],
        features=(_FEATURE,),
        rank=23,
        shows=_SHOWS,
    ),
)
