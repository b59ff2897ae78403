"""How tensors are made to fit together, of whatever shape and dtype they are."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def broadcastable(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether shapes ``a`` and ``b`` broadcast."""
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if x != y and x != 1 and y != 1:
            return False
    return True


def expands_to(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether shape ``a`` broadcasts to ``b`` itself."""
    return len(a) <= len(b) and all(
        x in (1, y) for x, y in zip(reversed(a), reversed(b), strict=False)
    )


def real(x: Tensor) -> Tensor:
    """A real tensor of the same shape; of a complex number the sum of its parts."""
    # By one edge, so that a program of few operations has few edges too.
    return (x * (1 - 1j)).real if x.is_complex() else x


def fit(x: Tensor, other: Tensor) -> Tensor:
    """``other``, or its sum where it does not broadcast with ``x``."""
    return other if broadcastable(x.shape, other.shape) else other.sum()


def fit_into(x: Tensor, other: Tensor) -> Tensor:
    """``other`` so that it can be added to ``x`` in place."""
    if other.dtype != x.dtype:
        other = real(other).sum().to(x.dtype)
    return other if expands_to(other.shape, x.shape) else other.sum()


def total(tensors: Sequence[Tensor]) -> Tensor:
    """The real scalar sum of all elements of all tensors."""
    result = real(tensors[0]).sum()
    for tensor in tensors[1:]:
        result = result + real(tensor).sum()
    return result
