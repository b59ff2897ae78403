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


def _told(what: torch.dtype | torch.Size) -> str:
    return str(what) if isinstance(what, torch.dtype) else f"({', '.join(map(str, what))})"


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
