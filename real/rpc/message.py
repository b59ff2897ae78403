"""Messages (torch/csrc/distributed/rpc/message.h)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from squall.real.rpc.device_copies import move_tensors
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.tensor_copies import copy_tensors

_new = object.__new__


class Message:
    """What crosses the network: bytes, tensors beside them, and an id that pairs reply and call.

    ``about`` are the ids inside the payload (context, autograd message, RRef, fork), so that a
    trace can show them without decoding it; nothing else reads it.
    """

    __slots__ = (
        "__weakref__",
        "about",
        "dst",
        "id",
        "number",
        "payload",
        "src",
        "streams",
        "targets",
        "tensors",
        "type",
    )

    def __init__(
        self,
        type: MessageType,
        payload: bytes = b"",
        tensors: list[Tensor] | None = None,
        *,
        id: int = -1,
        src: int = -1,
        dst: int = -1,
        about: tuple[object, ...] = (),
    ) -> None:
        self.type = type
        self.payload = payload
        self.tensors = tensors if tensors is not None else []
        self.id = id
        self.src = src
        self.dst = dst
        self.about = about
        #: given by what carries it: tells the copies of a message apart in a trace
        self.number = -1
        #: the device that each tensor goes to; None: all stay where they are
        self.targets: list[torch.device] | None = None
        #: where tensors arrive that are on devices with streams: they are ready on these
        self.streams: tuple[Any, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes on the wire: the payload and the elements of the tensors."""
        size = len(self.payload)
        for tensor in self.tensors:
            size += tensor_bytes(tensor)
        return size

    def copy(self) -> Message:
        """The message as it comes out at the other end: the same bytes, tensors of its own."""
        copy = _new(Message)
        copy.type = self.type
        copy.payload = self.payload
        copy.streams = ()
        copy.targets = targets = self.targets
        if targets is not None:
            copy.tensors, copy.streams = move_tensors(self.tensors, targets)
        else:
            copy.tensors = copy_tensors(self.tensors) if self.tensors else []
        copy.id = self.id
        copy.src = self.src
        copy.dst = self.dst
        copy.about = self.about
        copy.number = -1
        return copy

    def __repr__(self) -> str:
        return f"<{self.type.name} {self.id} {self.src}->{self.dst} {self.about}>"


def tensor_bytes(tensor: Tensor) -> int:
    """Bytes of the elements; for a sparse tensor, of its indices and values."""
    layout = tensor.layout
    if layout is torch.strided:
        return tensor.nbytes
    if layout is torch.sparse_coo:
        return tensor._indices().nbytes + tensor._values().nbytes
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return sum(t.nbytes for t in (tensor.crow_indices(), tensor.col_indices(), tensor.values()))
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return sum(t.nbytes for t in (tensor.ccol_indices(), tensor.row_indices(), tensor.values()))
    return tensor.numel() * tensor.element_size()
