"""Files in memory that have no name, by which large tensors go from one process to another: written by the one, mapped
by the other. real/native/shared.h has the other side for messages.

Most of what such a file costs are its pages, which the system makes, maps and takes away. So those of process groups
are kept, and written again once nobody reads them any more: their first byte says whether somebody does.
"""

from __future__ import annotations

import _thread
import ctypes
import os

import torch
from torch import Tensor

from squall.sim.stock.digests import dense_of

# Those of a script wait for its turn (sim/stock/turn_guest.py), these need not.
_from_file, _stat = torch.from_file, os.stat
#: bytes from which on a tensor is worth the calls of the system that a file costs
LARGE = 1 << 20
#: where tensors begin in a file; those that follow the first begin at a multiple of it
_BEGIN = 64
#: bytes of files that a process keeps to write them again, and of those that it keeps mapped, at most
_KEPT = 1 << 27
_MAPPED = 1 << 30
#: threads of a script may begin operations at the same time; it is no lock of the script's, whose waits are virtual
_LOCK = _thread.allocate_lock()
os.register_at_fork(after_in_child=_LOCK._at_fork_reinit)  # type: ignore[attr-defined]


class MemoryFile:
    """One that another process has open, open here too; closed when nobody here has it any more."""

    __slots__ = ("_fd",)

    def __init__(self, pid: int, fd: int) -> None:
        """``fd``: its number in process ``pid``. Raises FileNotFoundError if that has ended."""
        self._fd = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    @property
    def path(self) -> bytes:
        """Where another process can open it."""
        return f"/proc/{os.getpid()}/fd/{self._fd}".encode()


class LentFile(MemoryFile):
    """One of another process's :class:`LentFiles`. ``size_bytes``: of the tensors in it."""

    __slots__ = ("size_bytes",)

    def __init__(self, pid: int, fd: int, size_bytes: int) -> None:
        super().__init__(pid, fd)
        self.size_bytes = size_bytes

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.pwrite(self._fd, b"\0", 0)
        super().__del__()


class OwnFile:
    """One that this process has made, and writes to in its own memory."""

    def __init__(self, size_bytes: int) -> None:
        """With room for tensors of so many bytes."""
        self.fd = os.memfd_create("squall")
        os.ftruncate(self.fd, _BEGIN + size_bytes)
        self.memory = mapped(f"/proc/self/fd/{self.fd}")

    def write(self, tensor: Tensor, at: int) -> None:
        """The elements of one, ``at`` bytes behind where tensors begin; without an operator, as a profiler would tell
        of it."""
        dense = dense_of(tensor)
        ctypes.memmove(self.memory.data_ptr() + at, dense.data_ptr(), dense.nbytes)

    def close(self) -> None:
        os.close(self.fd)


class LentFiles:
    """Those that this process writes again and again."""

    def __init__(self) -> None:
        self._files: list[OwnFile] = []
        self._taken: list[OwnFile] = []
        os.register_at_fork(after_in_child=self._files.clear)  # they are the parent's

    def take(self, size_bytes: int) -> OwnFile:
        """One that nobody reads, with room for tensors of so many bytes, to be given back."""
        with _LOCK:
            file = next((each for each in self._files if self._is_free(each, size_bytes)), None)
            if file is None:
                file = OwnFile(size_bytes)
                self._files.append(file)
            self._taken.append(file)
            return file

    def _is_free(self, file: OwnFile, size_bytes: int) -> bool:
        has_room = len(file.memory) >= size_bytes and file not in self._taken
        return has_room and os.pread(file.fd, 1, 0) == b"\0"

    def lend(self, file: OwnFile) -> None:
        """It is read by others until they say that they have read it."""
        os.pwrite(file.fd, b"\1", 0)

    def give_back(self, file: OwnFile) -> None:
        """Nobody here needs it any more."""
        with _LOCK:
            self._taken.remove(file)
            if sum(len(each.memory) for each in self._files) > _KEPT:
                self._files.remove(file)
                file.close()


def next_place(end: int) -> int:
    """Where a tensor, of any type, may begin behind one that ends there."""
    return -(-end // _BEGIN) * _BEGIN


def mapped(path: str, known: dict[int, Tensor] | None = None) -> Tensor:
    """The bytes of a file from where tensors begin, which nobody may write to; they need no open file. Of a file that is
    written again they are ``known`` from before, by its number in the system."""
    about = _stat(path)
    if known is None:
        return _from_file(path, shared=True, size=about.st_size, dtype=torch.uint8)[_BEGIN:]
    with _LOCK:
        memory = known.pop(about.st_ino, None)
        if memory is None or len(memory) < about.st_size:
            memory = _from_file(path, shared=True, size=about.st_size, dtype=torch.uint8)
        known[about.st_ino] = memory
        while len(known) > 1 and sum(map(len, known.values())) > _MAPPED:
            del known[next(iter(known))]
        return memory[_BEGIN:]


def is_large(tensor: Tensor) -> bool:
    """Whether it is worth a file."""
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.nbytes >= LARGE
    )
