"""Adds a gradient to what a context has for a variable.

The rule of ``AccumulateGrad::accumulateGrad`` (torch/csrc/autograd/functions/accumulate_grad.h),
without double backward: a pass never creates a graph.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from sys import getrefcount
from typing import Any

import torch
from torch import Tensor

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
#: references to the only element of a list that nobody else holds: the list's and the argument's
_UNSHARED = 2
#: references to a storage that one tensor uses: the tensor's and the Python object's
_UNSHARED_STORAGE = 2

_storage_use_count = torch._C._storage_Use_Count


def accumulate_grad(
    grads: MutableMapping[Tensor, Tensor], variable: Tensor, new_grad: list[Any]
) -> None:
    """Add ``new_grad[0]`` to ``grads[variable]``. Grad mode must be off.

    The first gradient is taken over if nobody but the list ``new_grad`` refers to it and its
    layout suits the variable; otherwise it is copied. Later ones are added in place.
    """
    old = grads.get(variable)
    if old is None:
        if is_stealable(new_grad, variable):
            grads[variable] = new_grad[0].detach()
        else:
            grads[variable] = clone_obey_contract(new_grad[0], variable)
        return
    new = new_grad[0]
    if old.is_sparse and not new.is_sparse:
        grads[variable] = new + old  # the sum is dense: no place for it in the old tensor
    else:
        old += new


def is_stealable(holder: list[Any], variable: Tensor) -> bool:
    """Whether the one tensor in ``holder`` may become a gradient without being copied."""
    if getrefcount(holder[0]) != _UNSHARED or holder[0]._use_count() != 1:
        return False
    layout = holder[0].layout
    if layout is torch.strided:
        # Stricter than torch, which does not look at the storage: two gradients that are views
        # of one must not both be taken over, since each is added to in place later.
        storage = holder[0].untyped_storage()
        return (
            variable.layout not in _COMPRESSED
            and _storage_use_count(storage._cdata) == _UNSHARED_STORAGE
            and obeys_layout_contract(holder[0], variable)
        )
    if layout is torch.sparse_coo:
        return bool(holder[0]._indices().is_contiguous() and holder[0]._values().is_contiguous())
    return False


def obeys_layout_contract(grad: Tensor, variable: Tensor) -> bool:
    """A gradient has the strides of its variable, or is contiguous if the variable overlaps
    or has holes (torch/csrc/autograd/utils/grad_layout_contract.h)."""
    if grad.is_contiguous() and variable.is_contiguous():
        return True
    if not is_non_overlapping_and_dense(variable):
        return grad.is_contiguous()
    return all(
        size == 1 or ours == theirs
        for size, ours, theirs in zip(grad.shape, grad.stride(), variable.stride(), strict=True)
    )


def clone_obey_contract(grad: Tensor, variable: Tensor) -> Tensor:
    """A copy of ``grad`` that obeys the layout contract with ``variable``."""
    if grad.layout is not torch.strided or variable.layout is not torch.strided:
        return grad.clone()
    if is_non_overlapping_and_dense(variable):
        copied = grad.new_empty_strided(variable.shape, variable.stride())
        return copied.copy_(grad)
    return grad.clone(memory_format=torch.contiguous_format)


def is_non_overlapping_and_dense(tensor: Tensor) -> bool:
    """Whether the elements fill one stretch of memory, each once."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 0:
            return True
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
