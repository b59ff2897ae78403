"""Digests of tensors: equal elements, equal digests."""

from __future__ import annotations

import ctypes
import zlib
from typing import Any

import torch


def digest(tensor: Any) -> int:
    """Of the elements as they lie in memory, where that is possible: without an operator, which a profiler
    would tell of."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        tensor = tensor.detach().cpu().to_dense()
    if not tensor.is_contiguous():
        tensor = tensor.detach().contiguous()
    size = tensor.numel() * tensor.element_size()
    return zlib.crc32((ctypes.c_char * size).from_address(tensor.data_ptr())) if size else 0
