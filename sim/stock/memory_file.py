"""Files in memory that have no name, by which large tensors go from one process to another: written once by the
one, mapped by the other. real/native/shared.h has the other side for messages."""

from __future__ import annotations

import os

import torch
from torch import Tensor

# Those of a script wait for its turn (sim/stock/turn_guest.py), these need not.
_from_file, _stat = torch.from_file, os.stat
#: bytes from which on a tensor is worth the calls of the system that a file costs
LARGE = 1 << 20


class MemoryFile:
    """One that another process has open, open here too; closed when nobody here has it any more."""

    __slots__ = ("_fd",)

    def __init__(self, pid: int, fd: int) -> None:
        """``fd``: its number in process ``pid``. Raises FileNotFoundError if that has ended."""
        self._fd = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    @property
    def path(self) -> bytes:
        """Where another process can open it."""
        return f"/proc/{os.getpid()}/fd/{self._fd}".encode()

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._fd).st_size


def append(fd: int, tensor: Tensor, at: int) -> int:
    """Write its elements into a file; where the next begins, of any type."""
    data = tensor.detach().reshape(-1).view(torch.uint8).numpy().data
    while data:
        count = os.pwrite(fd, data, at)
        data, at = data[count:], at + count
    return -(-at // 64) * 64


def mapped(path: str) -> Tensor:
    """The bytes of a file. What is written to them is seen by nobody else, and they need no open file."""
    return _from_file(path, shared=False, size=_stat(path).st_size, dtype=torch.uint8)


def is_large(tensor: Tensor) -> bool:
    """Whether it is worth a file."""
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.nbytes >= LARGE
    )
