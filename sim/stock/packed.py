"""Tensors as one process gives them to another: to a member of its process group, or to the coordinator."""

from __future__ import annotations

import math
import pickle
from typing import Any

import torch
from torch import Tensor

from squall.sim.stock.digests import content
from squall.sim.stock.memory_file import LentFiles, OwnFile, is_large, mapped, next_place


class Packed:
    """Tensors as they are now, the elements of large ones in a file in memory, ``fd``, if there are any, of
    ``size_bytes``."""

    def __init__(self, tensors: list[Tensor], files: LentFiles | None = None) -> None:
        """``files``: of which the file is one; None if it is one of its own."""
        self.parts: list[tuple[torch.dtype | None, tuple[int, ...], Any]] = []
        self.size_bytes, self._files = 0, files
        large: list[tuple[Tensor, int]] = []
        for tensor in tensors:
            shape = tuple(tensor.shape)
            if tensor.layout == torch.sparse_coo:
                sparse = tensor.detach().coalesce()
                self.parts.append((None, shape, [_raw(sparse.indices()), _raw(sparse.values())]))
            elif is_large(tensor):
                at = next_place(self.size_bytes)
                self.parts.append((tensor.dtype, shape, at))
                large.append((tensor, at))
                self.size_bytes = at + tensor.nbytes
            else:
                self.parts.append(_raw(tensor))
        self._file: OwnFile | None = None
        if large:
            size = self.size_bytes
            self._file = OwnFile(size) if files is None else files.take(size)
        for tensor, at in large:
            assert self._file is not None
            self._file.write(tensor, at)

    @property
    def fd(self) -> int | None:
        return None if self._file is None else self._file.fd

    def lent(self) -> tuple[int, int] | None:
        """What another process needs to read the file, if there is one: it is lent from now on."""
        if self._file is None or self._files is None:
            return None
        self._files.lend(self._file)
        return self._file.fd, self.size_bytes

    def tensors(self) -> list[Tensor]:
        """Those that were packed, until it is closed; nobody may write to them."""
        return _tensors(self.parts, None if self._file is None else self._file.memory)

    def close(self) -> None:
        if self._file is not None and self._files is not None:
            self._files.give_back(self._file)
        elif self._file is not None:
            self._file.close()


def _raw(tensor: Tensor) -> tuple[torch.dtype, tuple[int, ...], bytes]:
    return tensor.dtype, tuple(tensor.shape), content(tensor)


def size_of(data: bytes) -> int:
    """How many bytes the tensors have whose parts these are, pickled."""
    return _size_of(pickle.loads(data))


def _size_of(parts: list[Any]) -> int:
    return sum(
        _size_of(raw) if dtype is None else math.prod(shape) * dtype.itemsize
        for dtype, shape, raw in parts
    )


def unpacked(
    parts: list[Any], path: str | None, known: dict[int, Tensor] | None = None
) -> list[Tensor]:
    """From the parts, and where the file is. ``known``: see :func:`mapped`."""
    return _tensors(parts, None if path is None else mapped(path, known))


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
