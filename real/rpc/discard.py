"""Letting go of the RRefs in a message that nobody will read.

Each RRef in a message is a fork that its owner, or its parent, keeps something alive for. Where
a message cannot be unpickled, or a reply comes after its call has ended, the receiver takes up
those forks and drops them at once; where a message could not be sent, the sender takes them back.
PyTorch leaks them.
"""

from __future__ import annotations

import io
import logging
import pickle
from typing import Any

from squall.real.autograd.messages import RpcWithAutograd
from squall.real.ids import WorkerId
from squall.real.process import Process
from squall.real.rpc import commands
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType

logger = logging.getLogger(__name__)

#: what :mod:`squall.real.rpc.serialization` writes for an RRef
_NAME = "rpc.received_rref"
_MARK = _NAME.encode()


class AnyType(type):
    """So that whatever is made by a call, a class for instance, is ``Anything`` again."""

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        return cls

    def __setitem__(cls, key: object, value: object) -> None:
        pass


class Anything(metaclass=AnyType):
    """Stands for every object in the message that is no RRef, and for its class."""

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        return cls

    @classmethod
    def __setstate__(cls, state: object) -> None:
        pass

    @classmethod
    def append(cls, item: object) -> None:
        pass

    @classmethod
    def extend(cls, items: object) -> None:
        pass

    @classmethod
    def add(cls, item: object) -> None:
        pass


class _Finder(pickle.Unpickler):
    """Runs nothing of what is in the message; collects the fork data."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.forks: list[tuple[Any, ...]] = []

    def persistent_load(self, name: str) -> Any:
        return self.forks.append if name == _NAME else Anything

    def find_class(self, module: str, name: str) -> Any:
        return Anything


def carries_references(payload: bytes) -> bool:
    """Whether there may be RRefs in a payload; cheap."""
    return _MARK in payload


def discard_references(worker: Process, payload: bytes) -> None:
    """Take up and drop every fork in the payload of a call or a result. Never raises.

    Harmless for those that were taken up before.
    """
    context = worker.rref_context
    if context is not None:
        for data in _forks_in(payload):
            context.discard_fork(data)


def _forks_in(payload: bytes) -> list[tuple[Any, ...]]:
    """The data of every fork in a pickled payload."""
    if not carries_references(payload):
        return []
    start = payload.index(pickle.PROTO)
    finder = _Finder(io.BytesIO(payload[start:]))
    try:
        finder.load()
    except Exception as error:
        # What was found until here is let go all the same.
        logger.warning("the references in an unread message are lost: %s", error)
    return finder.forks


def discard_message(worker: Process, message: Message) -> None:
    """Let go of the RRefs in a reply whose call is over, inside wrappers too."""
    discard_references(worker, pickled_part(message))


def take_back(worker: Process, to: WorkerId, message: Message) -> None:
    """Undo what the making of a message has left here, since it could not be sent: its forks, and
    its traces in the autograd context. To be called once. Never raises."""
    rrefs, container = worker.rref_context, worker.container
    while message.type in _WRAPPERS:
        if message.type in _AUTOGRAD and container is not None:
            container.take_back(*RpcWithAutograd.metadata_of(message), to)
        message = _unwrapped(message)
    if rrefs is not None and carries_references(message.payload):
        for data in _forks_in(pickled_part(message)):
            rrefs.undo_fork(data)


_AUTOGRAD = (MessageType.FORWARD_AUTOGRAD_REQ, MessageType.FORWARD_AUTOGRAD_RESP)
_WRAPPERS = frozenset(
    {*_AUTOGRAD, MessageType.RUN_WITH_PROFILING_REQ, MessageType.RUN_WITH_PROFILING_RESP}
)


def _unwrapped(message: Message) -> Message:
    """The message inside a wrapper."""
    if message.type in _AUTOGRAD:
        return RpcWithAutograd.from_message(message).wrapped_message
    if message.type == MessageType.RUN_WITH_PROFILING_REQ:
        return commands.RunWithProfilingReq.from_message(message).wrapped
    return commands.RunWithProfilingResp.from_message(message).wrapped


def pickled_part(message: Message) -> bytes:
    """The object that a call or a result carries, as it was pickled; empty if there is none."""
    while message.type in _WRAPPERS:
        message = _unwrapped(message)
    match message.type:
        case MessageType.PYTHON_CALL:
            return commands.PythonCall.from_message(message).payload
        case MessageType.SCRIPT_REMOTE_CALL:
            return commands.ScriptRemoteCall.from_message(message).payload
        case MessageType.PYTHON_REMOTE_CALL:
            return commands.PythonRemoteCall.from_message(message).payload
        case MessageType.EXCEPTION:
            return b""
    return message.payload
