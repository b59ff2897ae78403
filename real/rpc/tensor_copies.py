"""Tensors as they come out at the other end of a message.

What TensorPipe does, seen from outside (torch/csrc/distributed/rpc/utils.cpp, tensorpipeSerialize;
measured in properties/real/rpc/test_tensor_copies.py): the storage of a tensor travels, once for all
tensors of the message that use it, and each of them is made again with its own offset, strides and
conjugate or negative bit. So they share memory where they arrive as they did before. A view of a
large storage that is mostly gaps travels alone, as a dense tensor. A sparse tensor travels as its
indices and values, and nobody says whether it is coalesced.

Beyond PyTorch, a tensor that requires grad shares its memory with no other: the history of one
would not know of what is written to the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, UntypedStorage

#: a view is sent with its gaps, unless its storage is large and mostly gaps
#: (torch/csrc/distributed/rpc/utils.cpp, cloneSparseTensors)
_RECOPY_BYTES = 8 * 1024
_RECOPY_FACTOR = 2

#: by the address of a storage that travels: its copy
Storages = dict[int, UntypedStorage]

_set_conj = torch._C._set_conj
_set_neg = torch._C._set_neg


def copy_tensors(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies of the tensors of one message, which share memory where the tensors do."""
    if len(tensors) == 1:
        return [copy_tensor(tensors[0])]
    storages: Storages = {}
    return [copy_tensor(tensor, storages) for tensor in tensors]


def copy_tensor(tensor: Tensor, storages: Storages | None = None) -> Tensor:
    """A tensor with the same elements, layout and ``requires_grad`` and no history.

    ``storages``: what has been copied for other tensors of the message, and this one may use.
    Raises RuntimeError for a tensor whose storage is too small.
    """
    if tensor.requires_grad:
        copied = copy_tensor(tensor.detach())
        copied.requires_grad_()
        return copied
    layout = tensor.layout
    if layout is torch.strided and tensor.is_cpu and not tensor.is_quantized:
        return _copy_strided(tensor, storages)
    if layout is torch.sparse_coo:
        parts = tensor._indices(), tensor._values()
        indices, values = (copy_tensor(part, storages) for part in parts)
        return torch.sparse_coo_tensor(indices, values, tensor.shape, check_invariants=False)
    return tensor.clone()


def mostly_gaps(tensor: Tensor, nbytes: int) -> bool:
    """Whether a tensor uses so little of its storage, of ``nbytes``, that it travels without it."""
    return nbytes >= _RECOPY_BYTES and nbytes >= _RECOPY_FACTOR * tensor.nbytes


def _copy_strided(tensor: Tensor, storages: Storages | None) -> Tensor:
    storage = tensor.untyped_storage()
    nbytes = storage.nbytes()
    if mostly_gaps(tensor, nbytes):
        return tensor.clone()
    shared = None
    if storages is not None and nbytes:
        address = storage.data_ptr()
        shared = storages.get(address)
    if shared is None:
        if nbytes == tensor.nbytes and tensor.is_contiguous() and not _has_bits(tensor):
            copied = tensor.clone()
            if storages is not None and nbytes:
                storages[address] = copied.untyped_storage()
            return copied
        shared = storage.clone()
        if storages is not None and nbytes:
            storages[address] = shared
    copied = torch.empty(0, dtype=tensor.dtype, device="cpu")  # not the default device
    copied.set_(shared, tensor.storage_offset(), tensor.size(), tensor.stride())
    if shared.nbytes() != nbytes:  # it was enlarged to fit
        tensor.as_strided(copied.size(), copied.stride())  # torch's own error
    if tensor.is_conj():
        _set_conj(copied, True)
    if tensor.is_neg():
        _set_neg(copied, True)
    return copied


def _has_bits(tensor: Tensor) -> bool:
    return tensor.is_conj() or tensor.is_neg()
