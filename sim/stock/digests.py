"""The elements of tensors as they lie in memory, read without an operator where that is possible: a profiler would
tell of one, it may start threads, and a storage that NumPy has seen cannot be resized any more, which FSDP does."""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

import numpy as np
import torch

#: types that NumPy lacks
_WITHOUT_NUMPY = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def digest(tensor: Any) -> int:
    """Equal elements, equal digests."""
    dense = _dense(getattr(tensor, "_local_tensor", tensor))
    native: Any = importlib.import_module("squall_agent")  # which the zygote has loaded
    value: int = native.digest(dense.data_ptr(), dense.numel() * dense.element_size())
    return value


def elements(tensor: Any, every: int) -> Any:
    """A copy of every so many of them, as an array of NumPy."""
    dense = _dense(tensor)
    if dense.dtype in _WITHOUT_NUMPY:
        dense = dense.float()
    name = str(dense.dtype).removeprefix("torch.")
    return np.frombuffer(_memory(dense), np.dtype(name))[::every].copy()


def _memory(dense: Any) -> Any:
    size = dense.numel() * dense.element_size()
    return (ctypes.c_char * size).from_address(dense.data_ptr()) if size else b""


def _dense(tensor: Any) -> Any:
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        tensor = tensor.detach().cpu().to_dense()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()
