"""What the messages of distributed autograd say (torch/csrc/distributed/autograd/rpc_messages).

Each has a head of fixed size, so that the ids can be read without unpickling anything.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

from torch import Tensor

from squall.real.ids import (
    AutogradMessageId,
    ContextId,
    GlobalUniqueId,
    PassId,
    RRefId,
    WorkerId,
)
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import TYPES, MessageType

_CONTEXT = struct.Struct("<q")
#: bytes that say nothing (x) keep the lengths of messages, and with them the digests of runs
_WRAPPER = struct.Struct("<hqqH?4x")
_GRADIENTS = struct.Struct("<qq?q10x")
_RREF_BACKWARD = struct.Struct("<hqq?")


class AutogradMetadata(NamedTuple):
    """Names a pair of send and recv functions, and the context they belong to."""

    context_id: ContextId
    message_id: AutogradMessageId


class RpcWithAutograd:
    """A request or response that travels in an autograd context.

    ``recorded``: whether grad mode was on where the call was made. Both ends decide by it, and
    not by the mode of whatever task they run on, whether tensors that require grad are joined
    by a pair of send and recv functions; the response to the message follows it too.
    """

    __slots__ = ("from_worker_id", "message", "metadata", "recorded", "type")

    def __init__(
        self,
        type: MessageType,
        from_worker_id: WorkerId,
        metadata: AutogradMetadata,
        message: Message,
        recorded: bool = True,
    ) -> None:
        self.type = type
        self.from_worker_id = from_worker_id
        self.metadata = metadata
        self.message = message
        self.recorded = recorded

    @property
    def wrapped_message(self) -> Message:
        return self.message

    def to_message(self) -> Message:
        message = self.message
        head = _WRAPPER.pack(self.from_worker_id, *self.metadata, message.type, self.recorded)
        return Message(
            self.type,
            head + message.payload,
            message.tensors,
            about=(*self.metadata, message.type._name_, *message.about),
        )

    @staticmethod
    def metadata_of(message: Message) -> AutogradMetadata:
        """What :meth:`to_message` wrote, without the rest."""
        _, context_id, message_id, _, _ = _WRAPPER.unpack_from(message.payload)
        return AutogradMetadata(context_id, message_id)

    @classmethod
    def from_message(cls, message: Message) -> RpcWithAutograd:
        payload = message.payload
        sender, context_id, message_id, type, recorded = _WRAPPER.unpack_from(payload)
        wrapped = Message(
            TYPES[type],
            payload[_WRAPPER.size :],
            message.tensors,
            id=message.id,
            src=message.src,
            dst=message.dst,
            about=message.about[3:],
        )
        metadata = AutogradMetadata(context_id, message_id)
        return cls(message.type, sender, metadata, wrapped, recorded)


#: what a process says to the release of a context that it never had
_NOT_PASSED_ON = b"\0"


class PropagateGradientsReq:
    """The gradients of the tensors of one message, on the way back; none is missing."""

    __slots__ = ("grads", "metadata", "pass_id", "retain_graph")
    type: ClassVar = MessageType.BACKWARD_AUTOGRAD_REQ

    def __init__(
        self,
        metadata: AutogradMetadata,
        grads: Sequence[Tensor],
        retain_graph: bool,
        pass_id: PassId,
    ) -> None:
        self.metadata = metadata
        self.grads = list(grads)
        self.retain_graph = retain_graph
        self.pass_id = pass_id

    def to_message(self) -> Message:
        payload = _GRADIENTS.pack(*self.metadata, self.retain_graph, self.pass_id)
        return Message(self.type, payload, self.grads, about=tuple(self.metadata))

    @classmethod
    def from_message(cls, message: Message) -> PropagateGradientsReq:
        context_id, message_id, retain, pass_id = _GRADIENTS.unpack(message.payload)
        metadata = AutogradMetadata(context_id, message_id)
        return cls(metadata, message.tensors, retain, pass_id)


class _Empty:
    """A response that says nothing but that the request is done."""

    __slots__ = ()
    type: ClassVar[MessageType]

    def to_message(self) -> Message:
        return Message(self.type)

    @classmethod
    def from_message(cls, message: Message) -> Self:
        return cls()


class PropagateGradientsResp(_Empty):
    __slots__ = ()
    type = MessageType.BACKWARD_AUTOGRAD_RESP


class CleanupAutogradContextReq:
    """Release a context, if it is there."""

    __slots__ = ("context_id",)
    type: ClassVar = MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ

    def __init__(self, context_id: ContextId) -> None:
        self.context_id = context_id

    def to_message(self) -> Message:
        return Message(self.type, _CONTEXT.pack(self.context_id), about=(self.context_id,))

    @classmethod
    def from_message(cls, message: Message) -> CleanupAutogradContextReq:
        return cls(*_CONTEXT.unpack(message.payload))


class CleanupAutogradContextResp:
    """The context is gone, and whom this worker had reached has been told.

    Not ``passed_on``: this process never had it, and knows nobody that an earlier one reached.
    """

    __slots__ = ("passed_on",)
    type: ClassVar = MessageType.CLEANUP_AUTOGRAD_CONTEXT_RESP

    def __init__(self, passed_on: bool = True) -> None:
        self.passed_on = passed_on

    def to_message(self) -> Message:
        return Message(self.type, b"" if self.passed_on else _NOT_PASSED_ON)

    @classmethod
    def from_message(cls, message: Message) -> CleanupAutogradContextResp:
        return cls(message.payload != _NOT_PASSED_ON)


class RRefBackwardReq:
    """Run a backward pass from the value of an RRef, at its owner."""

    __slots__ = ("autograd_context_id", "retain_graph", "rref_id")
    type: ClassVar = MessageType.RREF_BACKWARD_REQ

    def __init__(
        self, rref_id: RRefId, autograd_context_id: ContextId, retain_graph: bool = False
    ) -> None:
        self.rref_id = rref_id
        self.autograd_context_id = autograd_context_id
        self.retain_graph = retain_graph

    def to_message(self) -> Message:
        payload = _RREF_BACKWARD.pack(*self.rref_id, self.autograd_context_id, self.retain_graph)
        return Message(self.type, payload, about=(self.autograd_context_id, tuple(self.rref_id)))

    @classmethod
    def from_message(cls, message: Message) -> RRefBackwardReq:
        created_on, local_id, context_id, retain = _RREF_BACKWARD.unpack(message.payload)
        return cls(GlobalUniqueId(created_on, local_id), context_id, retain)


class RRefBackwardResp(_Empty):
    __slots__ = ()
    type = MessageType.RREF_BACKWARD_RESP
