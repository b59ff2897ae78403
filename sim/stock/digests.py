"""The elements of tensors as they lie in memory, read without an operator where that is possible: a profiler would
tell of one, it may start threads, and a storage that NumPy has seen cannot be resized any more, which FSDP does."""

from __future__ import annotations

import ctypes
import functools
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch._ops import _len_torch_dispatch_stack_pre_dispatch
from torch.utils._python_dispatch import _disable_current_modes

_native: Any = torch._C
_NOTHING = nullcontext()
_PLAIN = (torch.Tensor, torch.nn.Parameter)

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
    dense = dense_of(tensor if type(tensor) in _PLAIN else getattr(tensor, "_local_tensor", tensor))
    # The fork server has loaded it.
    value: int = sys.modules["squall_agent"].digest(dense.data_ptr(), dense.nbytes)
    return value


def content(tensor: Any) -> bytes:
    """Its elements, one behind the other."""
    dense = dense_of(tensor)
    return ctypes.string_at(dense.data_ptr(), size) if (size := dense.nbytes) else b""


def elements(tensor: Any, every: int, begin: int = 0, end: int | None = None) -> Elements:
    """Every so many of them, of all or of those between."""
    dense = dense_of(tensor)
    if dense.dtype in _WITHOUT_NUMPY:
        dense = dense.float()
    name = _name(dense.dtype)
    if every == 1 and (begin, end) == (0, None):
        return name, content(dense)
    memory = (ctypes.c_char * dense.nbytes).from_address(dense.data_ptr())
    return name, np.frombuffer(memory, np.dtype(name))[begin:end:every].tobytes()


@functools.cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dense_of(tensor: Any) -> Any:
    """Its elements, one behind the other: the tensor itself if they lie so."""
    if tensor.layout != torch.strided or not tensor.is_cpu:
        tensor = tensor.detach().cpu().to_dense()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()
