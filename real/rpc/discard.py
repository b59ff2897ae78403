"""Letting go of the RRefs in a message that nobody will read.

Each RRef in a message is a fork that its owner, or its parent, keeps something alive for. Where
a message cannot be unpickled, or a reply comes after its call has ended, the receiver takes up
those forks and drops them at once. PyTorch leaks them.
"""

from __future__ import annotations

import io
import logging
import pickle
from typing import TYPE_CHECKING, Any

from real.rpc.message import Message, MessageType

if TYPE_CHECKING:
    from real.worker import Worker

logger = logging.getLogger(__name__)

#: what :mod:`real.rpc.serialization` writes for an RRef
_MODULE, _NAME = "real.rpc.serialization", "received_rref"
_MARK = _NAME.encode()


class _Anything:
    """Stands for every object in the message that is no RRef."""

    def __new__(cls, *args: object, **kwargs: object) -> _Anything:
        return object.__new__(cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def append(self, item: object) -> None:
        pass

    def extend(self, items: object) -> None:
        pass

    def add(self, item: object) -> None:
        pass


class _Finder(pickle.Unpickler):
    """Runs nothing of what is in the message; collects the fork data."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.forks: list[tuple[Any, ...]] = []

    def find_class(self, module: str, name: str) -> Any:
        return self.forks.append if (module, name) == (_MODULE, _NAME) else _Anything


def carries_references(payload: bytes) -> bool:
    """Whether there may be RRefs in a payload; cheap."""
    return _MARK in payload


def discard_references(worker: Worker, payload: bytes) -> None:
    """Take up and drop every fork in the payload of a call or a result. Never raises.

    Harmless for those that were taken up before.
    """
    context = worker.rref_context
    if context is None or not carries_references(payload):
        return
    start = payload.index(pickle.PROTO)
    finder = _Finder(io.BytesIO(payload[start:]))
    try:
        finder.load()
    except Exception as error:
        # What was found until here is let go all the same.
        logger.warning("the references in an unread message are lost: %s", error)
    for data in finder.forks:
        context.discard_fork(data)


def discard_message(worker: Worker, message: Message) -> None:
    """Let go of the RRefs in a reply whose call is over, inside wrappers too."""
    from real.autograd.messages import RpcWithAutograd
    from real.rpc.commands import RunWithProfilingResp

    while True:
        if message.type == MessageType.FORWARD_AUTOGRAD_RESP:
            message = RpcWithAutograd.from_message(message).wrapped_message
        elif message.type == MessageType.RUN_WITH_PROFILING_RESP:
            message = RunWithProfilingResp.from_message(message).wrapped
        else:
            break
    if message.type != MessageType.EXCEPTION:
        discard_references(worker, message.payload)
