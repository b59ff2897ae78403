"""What process groups put into tensors, on either engine, and what gloo refuses before that."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def check_alike(into: Sequence[Tensor], own: Tensor, what_for: str = "allgather") -> None:
    """Raises RuntimeError as gloo does, in ``what_for``, for tensors that are not of the size and type of ``own``."""
    for at, tensor in enumerate(into):
        for what, expected, got in (
            ("type", own.dtype, tensor.dtype),
            ("size", own.shape, tensor.shape),
        ):
            if expected != got:
                raise RuntimeError(
                    f"ProcessGroupGloo::{what_for}: invalid tensor {what} at index {at} (expected "
                    f"{_told(expected)}, got {_told(got)})"
                )


_GLOO = "ProcessGroupGloo::"
#: what gloo says of so many tensors, which have to be as many as there are members
_COUNTS = {
    "allgather": _GLOO
    + "allgather: invalid output tensor list at index 0 (expected length {size}, got {count})",
    "gather": _GLOO
    + "gather: Incorrect output list size {count}. Output list size should be {size}, same as size of the "
    "process group.",
    "scatter": _GLOO
    + "scatter: Incorrect input list size {count}. Input list size should be {size}, same as size of the "
    "process group.",
    "reduce_scatter": "invalid input tensor list size, must be world size",
    "alltoall": _GLOO
    + "alltoall: {which} tensor list size {count} does not match world size {size}",
}


def check_count(tensors: Sequence[object], size: int, what_for: str, which: str = "") -> None:
    """Raises RuntimeError as gloo does, in ``what_for``, unless there is one for each member."""
    if len(tensors) != size:
        text = _COUNTS[what_for].format(count=len(tensors), size=size, which=which)
        raise RuntimeError(text)


def _told(what: torch.dtype | torch.Size) -> str:
    return str(what) if isinstance(what, torch.dtype) else f"({', '.join(map(str, what))})"


def as_it_lies(tensor: Tensor) -> Tensor:
    """What gloo takes such a tensor for, and writes to: as many elements as it has, from its first one on as they lie in
    memory. Of a part of a tensor these are others than its own (pytorch#192920). Autograd, which may need the tensor, is
    not told of what is written there. Raises RuntimeError where it has more elements than there is memory, where gloo
    goes on behind it."""
    if tensor.layout is not torch.strided:
        return tensor
    if tensor.is_contiguous():
        return tensor.data
    return tensor.data.as_strided(tensor.shape, torch.empty(tensor.shape, device="meta").stride())


def check_dense(tensor: Tensor, error: type[Exception], text: str) -> None:
    """Raises an ``error`` of that text for a tensor whose elements do not lie in one piece."""
    if tensor.layout is torch.strided and not tensor.is_contiguous():
        raise error(text)


def put(into: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Gloo moves bytes, and takes them for what the receiver says that they are."""
    for tensor, value in zip(into, values, strict=True):
        if value.dtype != tensor.dtype:
            value = value.reshape(-1).view(torch.uint8).view(tensor.dtype)
        assign(tensor, value if tensor.is_sparse else value.reshape(tensor.shape))


def assign(tensor: Tensor, value: Tensor) -> None:
    """Into a tensor that may need a gradient; without one being recorded."""
    if tensor is value:
        return
    # What is detached of a sparse tensor has indices of its own.
    (tensor if tensor.is_sparse else tensor.detach()).copy_(value)
