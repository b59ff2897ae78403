"""Tensors as one process gives them to another: to a member of its process group, or to the coordinator."""

from __future__ import annotations

import math
import os
from typing import Any

import torch
from torch import Tensor

from squall.sim.stock.digests import content
from squall.sim.stock.memory_file import append, is_large, mapped


class Packed:
    """Tensors as they are now, the elements of large ones in a file in memory, ``fd``, if there are any."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.parts: list[tuple[torch.dtype | None, tuple[int, ...], Any]] = []
        self.fd: int | None = None
        at = 0
        for tensor in tensors:
            shape = tuple(tensor.shape)
            if tensor.layout == torch.sparse_coo:
                sparse = tensor.detach().coalesce()
                self.parts.append((None, shape, [_raw(sparse.indices()), _raw(sparse.values())]))
            elif is_large(tensor):
                self.fd = os.memfd_create("squall") if self.fd is None else self.fd
                self.parts.append((tensor.dtype, shape, at))
                at = append(self.fd, tensor, at)
            else:
                self.parts.append(_raw(tensor))

    def tensors(self) -> list[Tensor]:
        """Copies of them, until it is closed."""
        return unpacked(self.parts, None if self.fd is None else f"/proc/self/fd/{self.fd}")

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)


def _raw(tensor: Tensor) -> tuple[torch.dtype, tuple[int, ...], bytes]:
    return tensor.dtype, tuple(tensor.shape), content(tensor)


def unpacked(parts: list[Any], path: str | None) -> list[Tensor]:
    """From the parts, and where the file is."""
    return _tensors(parts, None if path is None else mapped(path))


def _tensors(parts: list[Any], memory: Tensor | None) -> list[Tensor]:
    tensors = []
    for dtype, shape, raw in parts:
        if dtype is None:
            indices, values = _tensors(raw, None)
            tensors.append(torch.sparse_coo_tensor(indices, values, shape))
        elif isinstance(raw, int):
            assert memory is not None
            size = math.prod(shape) * dtype.itemsize
            tensors.append(memory[raw : raw + size].view(dtype).reshape(shape))
        elif math.prod(shape):
            flat = torch.frombuffer(bytearray(raw), dtype=dtype)
            tensors.append(flat if len(shape) == 1 else flat.reshape(shape))
        else:
            tensors.append(torch.empty(shape, dtype=dtype))
    return tensors
