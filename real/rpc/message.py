"""Message types and messages (torch/csrc/distributed/rpc/message.h)."""

from __future__ import annotations

from enum import IntEnum

from torch import Tensor

REQUEST_FLAG = 0x100
RESPONSE_FLAG = 0x200


class MessageType(IntEnum):
    SCRIPT_CALL = 0x100
    SCRIPT_RET = 0x201
    PYTHON_CALL = 0x102
    PYTHON_RET = 0x203
    SCRIPT_REMOTE_CALL = 0x104
    PYTHON_REMOTE_CALL = 0x105
    REMOTE_RET = 0x206
    SCRIPT_RREF_FETCH_CALL = 0x107
    PYTHON_RREF_FETCH_CALL = 0x108
    SCRIPT_RREF_FETCH_RET = 0x209
    PYTHON_RREF_FETCH_RET = 0x20A
    RREF_USER_DELETE = 0x10B
    RREF_FORK_REQUEST = 0x10C
    RREF_CHILD_ACCEPT = 0x10D
    RREF_ACK = 0x20E
    FORWARD_AUTOGRAD_REQ = 0x10F
    FORWARD_AUTOGRAD_RESP = 0x210
    BACKWARD_AUTOGRAD_REQ = 0x111
    BACKWARD_AUTOGRAD_RESP = 0x212
    CLEANUP_AUTOGRAD_CONTEXT_REQ = 0x113
    CLEANUP_AUTOGRAD_CONTEXT_RESP = 0x214
    RUN_WITH_PROFILING_REQ = 0x115
    RUN_WITH_PROFILING_RESP = 0x216
    RREF_BACKWARD_REQ = 0x117
    RREF_BACKWARD_RESP = 0x218
    EXCEPTION = 0x237

    @property
    def is_request(self) -> bool:
        return bool(self & REQUEST_FLAG)

    @property
    def is_response(self) -> bool:
        return bool(self & RESPONSE_FLAG)


class Message:
    """What crosses the network: bytes, tensors beside them, and an id that pairs reply and call.

    ``about`` are the ids inside the payload (context, autograd message, RRef, fork), so that a
    trace can show them without decoding it; nothing else reads it.
    """

    __slots__ = ("about", "dst", "id", "number", "payload", "src", "tensors", "type")

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

    @property
    def size_bytes(self) -> int:
        """Bytes on the wire: the payload and the elements of the tensors."""
        return len(self.payload) + sum(t.nbytes for t in self.tensors)

    def copy(self) -> Message:
        """The message as it comes out at the other end: the same bytes, tensors of its own."""
        return Message(
            self.type,
            self.payload,
            [copy_tensor(t) for t in self.tensors],
            id=self.id,
            src=self.src,
            dst=self.dst,
            about=self.about,
        )

    def __repr__(self) -> str:
        return f"<{self.type.name} {self.id} {self.src}->{self.dst} {self.about}>"


def copy_tensor(tensor: Tensor) -> Tensor:
    """A tensor with the same elements, layout and ``requires_grad`` and no history."""
    copied = tensor.detach().clone()
    if tensor.requires_grad:
        copied.requires_grad_()
    return copied
