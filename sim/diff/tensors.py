"""How a tensor of torch differs from that of the port: in value, type, layout or strides."""

from __future__ import annotations

import torch
from torch import Tensor

from squall.model.program.compare import Tolerance, compare, to_dense
from squall.sim.diff.facts import Place

#: both engines compute a gradient by the same kernels, and sum at most in another order: they
#: agree to so many units in the last place of its largest element
_ULPS = 4


def tensors_differ(place: Place, ours: Tensor | None, theirs: Tensor | None) -> str | None:
    """How torch's tensor differs from the port's; None if it does not. No gradient and zeros are
    the same: what reaches one tensor of a message reaches the others as zeros."""
    if ours is not None and theirs is not None:
        if ours.layout != theirs.layout:
            return f"has layout {theirs.layout}, expected {ours.layout}"
        if place[0] == "gradient" and _strides(ours) != _strides(theirs):
            return f"has strides {_strides(theirs)}, expected {_strides(ours)}"
        return compare(theirs, ours, tolerance=tolerance_of(ours)).complaint
    only = ours if ours is not None else theirs
    assert only is not None
    if place[0] == "gradient" and not bool(to_dense(only).any()):
        return None
    return "is missing" if theirs is None else "is there, too many"


def tolerance_of(tensor: Tensor) -> Tolerance:
    """By how much the same sums may differ, taken in another order."""
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        return Tolerance(0.0, 0.0)
    info = torch.finfo(tensor.dtype)
    return Tolerance(_ULPS * info.eps, info.tiny)


def _strides(tensor: Tensor) -> list[int]:
    """The strides that matter: those of dimensions with more than one element."""
    if tensor.layout != torch.strided or not tensor.numel():
        return []
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
