"""Message types (torch/csrc/distributed/rpc/message.h). Whoever needs their names alone imports no torch."""

from __future__ import annotations

from enum import IntEnum

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
    # None of PyTorch's RPC: what members of process groups send each other
    COLLECTIVE = 0x400
    NOTICE = 0x401  # that a receiver is there
    SEND = 0x402

    @property
    def is_request(self) -> bool:
        return bool(self & REQUEST_FLAG)

    @property
    def is_response(self) -> bool:
        return bool(self & RESPONSE_FLAG)


#: types by their numbers: to ask the enumeration takes two calls
TYPES = {int(type): type for type in MessageType}
