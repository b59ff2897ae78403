"""The elements of tensors as they lie in memory, read without an operator where that is possible: a profiler would
tell of one, it may start threads, and a storage that NumPy has seen cannot be resized any more, which FSDP does."""

from __future__ import annotations

import ctypes
import importlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch._ops import _len_torch_dispatch_stack_pre_dispatch
from torch.utils._python_dispatch import _disable_current_modes

_native: Any = torch._C
_NOTHING = nullcontext()

#: their type, as NumPy calls it, and what they are
Elements = tuple[str, bytes]
#: types that NumPy lacks
_WITHOUT_NUMPY = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def without_modes() -> AbstractContextManager[object]:
    """No mode of the script's sees what operators are called, and as a rule there is none."""
    if _native._len_torch_dispatch_stack() or _len_torch_dispatch_stack_pre_dispatch():
        modes: AbstractContextManager[object] = _disable_current_modes()
        return modes
    return _NOTHING


def digest(tensor: Any) -> int:
    """Equal elements, equal digests."""
    dense = _dense(getattr(tensor, "_local_tensor", tensor))
    native: Any = importlib.import_module("squall_agent")  # which the zygote has loaded
    value: int = native.digest(dense.data_ptr(), dense.numel() * dense.element_size())
    return value


def elements(tensor: Any, every: int) -> Elements:
    """Every so many of them."""
    dense = _dense(tensor)
    if dense.dtype in _WITHOUT_NUMPY:
        dense = dense.float()
    name = str(dense.dtype).removeprefix("torch.")
    size = dense.numel() * dense.element_size()
    if every == 1:
        return name, ctypes.string_at(dense.data_ptr(), size) if size else b""
    memory = (ctypes.c_char * size).from_address(dense.data_ptr())
    return name, np.frombuffer(memory, np.dtype(name))[::every].tobytes()


def _dense(tensor: Any) -> Any:
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        tensor = tensor.detach().cpu().to_dense()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()
