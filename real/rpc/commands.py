"""What the messages of calls and RRefs say, and how it is laid out in them.

A call's payload is what :mod:`squall.real.rpc.serialization` made of it; in front of it stands a head
of fixed size with ids, so that an id can be read even where unpickling fails. Commands of
distributed autograd are in :mod:`squall.real.autograd.messages`.
(torch/csrc/distributed/rpc: script_call.h, python_call.h, script_remote_call.h,
python_remote_call.h, script_resp.h, python_resp.h, rref_proto.h, and
torch/csrc/distributed/autograd/rpc_messages)
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self

from torch import Tensor

from squall.real.ids import ForkId, GlobalUniqueId, RRefId, WorkerId
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType

_ID = struct.Struct("<hq")
_TWO_IDS = struct.Struct("<hqhq")
_FETCH = struct.Struct("<hhq")
_FLAG = {False: b"\0", True: b"\1"}


class Command(Protocol):
    """Anything that can be sent."""

    def to_message(self) -> Message: ...


def _ids(message: Message) -> tuple[RRefId, ForkId]:
    a, b, c, d = _TWO_IDS.unpack_from(message.payload)
    return GlobalUniqueId(a, b), GlobalUniqueId(c, d)


class _Pickled:
    """A command whose payload is one pickled object. Not unpickled here: that makes RRefs."""

    __slots__ = ("content", "payload", "tensors")
    type: ClassVar[MessageType]

    def __init__(self, payload: bytes, tensors: list[Tensor]) -> None:
        self.payload = payload
        self.tensors = tensors
        #: what the receiver unpickled
        self.content: Any = None

    def to_message(self) -> Message:
        return Message(self.type, self.payload, self.tensors)

    @classmethod
    def from_message(cls, message: Message) -> Self:
        return cls(message.payload, message.tensors)


class ScriptCall(_Pickled):
    """Call a torch operator: a pickled :class:`squall.real.rpc.builtin.OperatorCall`."""

    __slots__ = ()
    type = MessageType.SCRIPT_CALL


class ScriptResp(_Pickled):
    __slots__ = ()
    type = MessageType.SCRIPT_RET


class PythonResp(_Pickled):
    __slots__ = ()
    type = MessageType.PYTHON_RET


class ScriptRRefFetchRet(_Pickled):
    __slots__ = ()
    type = MessageType.SCRIPT_RREF_FETCH_RET


class PythonRRefFetchRet(_Pickled):
    __slots__ = ()
    type = MessageType.PYTHON_RREF_FETCH_RET


class PythonCall(_Pickled):
    """Call a Python function: a pickled ``PythonUDF``."""

    __slots__ = ("is_async_execution",)
    type = MessageType.PYTHON_CALL

    def __init__(
        self, payload: bytes, tensors: list[Tensor], is_async_execution: bool = False
    ) -> None:
        super().__init__(payload, tensors)
        self.is_async_execution = is_async_execution

    def to_message(self) -> Message:
        return Message(self.type, _FLAG[self.is_async_execution] + self.payload, self.tensors)

    @classmethod
    def from_message(cls, message: Message) -> Self:
        payload = message.payload
        return cls(payload[1:], message.tensors, payload[0] == 1)


class ScriptRemoteCall(_Pickled):
    """Run a torch operator and keep the result as the value of an RRef."""

    __slots__ = ("fork_id", "rref_id", "type_str")
    type = MessageType.SCRIPT_REMOTE_CALL

    def __init__(
        self,
        payload: bytes,
        tensors: list[Tensor],
        rref_id: RRefId,
        fork_id: ForkId,
        type_str: str = "Tensor",
    ) -> None:
        super().__init__(payload, tensors)
        self.rref_id = rref_id
        self.fork_id = fork_id
        #: TorchScript's name for the type of the result; known to both ends, so not sent
        self.type_str = type_str

    def to_message(self) -> Message:
        head = _TWO_IDS.pack(*self.rref_id, *self.fork_id)
        about = (tuple(self.rref_id), tuple(self.fork_id))
        return Message(self.type, head + self.payload, self.tensors, about=about)

    @classmethod
    def from_message(cls, message: Message) -> Self:
        rref_id, fork_id = _ids(message)
        return cls(message.payload[_TWO_IDS.size :], message.tensors, rref_id, fork_id)


class PythonRemoteCall(_Pickled):
    """Run a Python function and keep the result as the value of an RRef."""

    __slots__ = ("fork_id", "is_async_execution", "rref_id")
    type = MessageType.PYTHON_REMOTE_CALL

    def __init__(
        self,
        payload: bytes,
        tensors: list[Tensor],
        rref_id: RRefId,
        fork_id: ForkId,
        is_async_execution: bool = False,
    ) -> None:
        super().__init__(payload, tensors)
        self.rref_id = rref_id
        self.fork_id = fork_id
        self.is_async_execution = is_async_execution

    def to_message(self) -> Message:
        head = _TWO_IDS.pack(*self.rref_id, *self.fork_id) + _FLAG[self.is_async_execution]
        about = (tuple(self.rref_id), tuple(self.fork_id))
        return Message(self.type, head + self.payload, self.tensors, about=about)

    @classmethod
    def from_message(cls, message: Message) -> Self:
        rref_id, fork_id = _ids(message)
        at = _TWO_IDS.size
        payload = message.payload
        return cls(payload[at + 1 :], message.tensors, rref_id, fork_id, payload[at] == 1)


class _TwoIds:
    """A command that is an RRef id and a fork id."""

    __slots__ = ("fork_id", "rref_id")
    type: ClassVar[MessageType]

    def __init__(self, rref_id: RRefId, fork_id: ForkId) -> None:
        self.rref_id = rref_id
        self.fork_id = fork_id

    def to_message(self) -> Message:
        payload = _TWO_IDS.pack(*self.rref_id, *self.fork_id)
        return Message(self.type, payload, about=(tuple(self.rref_id), tuple(self.fork_id)))

    @classmethod
    def from_message(cls, message: Message) -> Self:
        return cls(*_ids(message))


class RemoteRet(_TwoIds):
    """The RRef's value is there; the creator's fork is registered."""

    __slots__ = ()
    type = MessageType.REMOTE_RET


class RRefForkRequest(_TwoIds):
    """A user asks the owner to register its fork."""

    __slots__ = ()
    type = MessageType.RREF_FORK_REQUEST


class RRefUserDelete(_TwoIds):
    """A user is gone.

    ``abandoned``: it is the creator, and it never heard that the RRef was created. An owner to
    which the creation has not come either can then tell whoever asked for the value.
    """

    __slots__ = ("abandoned",)
    type = MessageType.RREF_USER_DELETE

    def __init__(self, rref_id: RRefId, fork_id: ForkId, abandoned: bool = False) -> None:
        super().__init__(rref_id, fork_id)
        self.abandoned = abandoned

    def to_message(self) -> Message:
        message = super().to_message()
        message.payload += _FLAG[self.abandoned]
        return message

    @classmethod
    def from_message(cls, message: Message) -> Self:
        return cls(*_ids(message), message.payload[-1] == 1)


class RRefChildAccept:
    """A child tells its parent that the owner knows it."""

    __slots__ = ("fork_id",)

    def __init__(self, fork_id: ForkId) -> None:
        self.fork_id = fork_id

    def to_message(self) -> Message:
        payload = _ID.pack(*self.fork_id)
        return Message(MessageType.RREF_CHILD_ACCEPT, payload, about=(tuple(self.fork_id),))

    @classmethod
    def from_message(cls, message: Message) -> RRefChildAccept:
        return cls(GlobalUniqueId(*_ID.unpack(message.payload)))


class RRefAck:
    __slots__ = ()

    def to_message(self) -> Message:
        return Message(MessageType.RREF_ACK)

    @classmethod
    def from_message(cls, message: Message) -> RRefAck:
        return cls()


class _FetchCall:
    __slots__ = ("from_worker_id", "rref_id")
    type: ClassVar[MessageType]

    def __init__(self, from_worker_id: WorkerId, rref_id: RRefId) -> None:
        self.from_worker_id = from_worker_id
        self.rref_id = rref_id

    def to_message(self) -> Message:
        payload = _FETCH.pack(self.from_worker_id, *self.rref_id)
        return Message(self.type, payload, about=(tuple(self.rref_id),))

    @classmethod
    def from_message(cls, message: Message) -> Self:
        sender, created_on, local_id = _FETCH.unpack(message.payload)
        return cls(sender, GlobalUniqueId(created_on, local_id))


class ScriptRRefFetchCall(_FetchCall):
    """Ask the owner for the value of an RRef that an operator made."""

    __slots__ = ()
    type = MessageType.SCRIPT_RREF_FETCH_CALL


class PythonRRefFetchCall(_FetchCall):
    """Ask the owner for the value of an RRef that holds any Python object."""

    __slots__ = ()
    type = MessageType.PYTHON_RREF_FETCH_CALL


def _wrapping(
    type: MessageType, wrapped: Message, profiling_id: GlobalUniqueId, more: tuple[Any, ...]
) -> Message:
    """A message with another one inside, and ``more`` about its profile."""
    head = pickle.dumps((int(wrapped.type), tuple(profiling_id), more))
    payload = struct.pack("<I", len(head)) + head + wrapped.payload
    about = (tuple(profiling_id), wrapped.type._name_, *wrapped.about)
    return Message(type, payload, wrapped.tensors, about=about)


def _unwrapped(message: Message) -> tuple[Message, GlobalUniqueId, tuple[Any, ...]]:
    """What :func:`_wrapping` was given, without the type."""
    (size,) = struct.unpack_from("<I", message.payload)
    type, profiling_id, more = pickle.loads(message.payload[4 : 4 + size])
    wrapped = Message(MessageType(type), message.payload[4 + size :], message.tensors)
    wrapped.src, wrapped.dst, wrapped.id = message.src, message.dst, message.id
    return wrapped, GlobalUniqueId(*profiling_id), more


class RunWithProfilingReq:
    """A call, and the wish to have it run under the legacy profiler.

    ``config``: the profiler's options, as numbers. (rpc_with_profiling_req.h)
    """

    __slots__ = ("config", "profiling_id", "wrapped", "wrapped_command")

    def __init__(
        self, wrapped: Message, profiling_id: GlobalUniqueId, config: Sequence[int]
    ) -> None:
        self.wrapped = wrapped
        self.profiling_id = profiling_id
        self.config = tuple(config)
        #: the command inside, once the receiver has decoded it
        self.wrapped_command: Any = None

    def to_message(self) -> Message:
        return _wrapping(
            MessageType.RUN_WITH_PROFILING_REQ, self.wrapped, self.profiling_id, self.config
        )

    @classmethod
    def from_message(cls, message: Message) -> RunWithProfilingReq:
        return cls(*_unwrapped(message))


class RunWithProfilingResp:
    """The reply to the call inside, and the events that the profiler saw.

    ``events``: marks, the beginnings and ends of ranges, in lists by where they were made; what
    there is to say about each is in :mod:`squall.real.rpc.profiling`, times in microseconds.
    """

    __slots__ = ("events", "profiling_id", "wrapped")

    def __init__(
        self,
        wrapped: Message,
        profiling_id: GlobalUniqueId,
        events: Sequence[Sequence[dict[str, Any]]],
    ) -> None:
        self.wrapped = wrapped
        self.profiling_id = profiling_id
        self.events = tuple(events)

    def to_message(self) -> Message:
        return _wrapping(
            MessageType.RUN_WITH_PROFILING_RESP, self.wrapped, self.profiling_id, self.events
        )

    @classmethod
    def from_message(cls, message: Message) -> RunWithProfilingResp:
        return cls(*_unwrapped(message))
