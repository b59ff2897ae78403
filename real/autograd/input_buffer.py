"""The gradients that have arrived at a node (torch/csrc/autograd/input_buffer.cpp)."""

from __future__ import annotations

import torch
from torch import Tensor

_strided = torch.strided


class InputBuffer:
    """One gradient for each input of a node, None where none has arrived.

    A second gradient for the same input is added. The sum is a tensor of our own, so a third
    one may be added to it in place; a tensor that came from a node is never written to.
    """

    __slots__ = ("_owned", "buffer")

    def __init__(self, size: int) -> None:
        self.buffer: list[Tensor | None] = [None] * size
        #: bit i: entry i was allocated here
        self._owned = 0

    def add(self, index: int, grad: Tensor | None) -> None:
        """Add a gradient of input ``index``; None changes nothing."""
        if grad is None:
            return
        buffer = self.buffer
        old = buffer[index]
        if old is None:
            buffer[index] = grad
            return
        if self._owned >> index & 1 and can_accumulate_inplace(old, grad):
            old.add_(grad)
            return
        buffer[index] = accumulate(old, grad)
        self._owned |= 1 << index


def can_accumulate_inplace(old: Tensor, new: Tensor) -> bool:
    """Whether ``old.add_(new)`` is defined and as cheap as it gets."""
    if type(old) is not Tensor or type(new) is not Tensor:
        return False
    return old.layout is new.layout or (old.layout is _strided and new.layout is torch.sparse_coo)


def accumulate(old: Tensor, new: Tensor) -> Tensor:
    """A new tensor with the sum; dense if either is, sparse if both are."""
    if old.layout is not _strided and new.layout is _strided:
        return new + old  # sparse + dense is not defined
    return old + new
