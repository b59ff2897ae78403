"""From the bytes of a request to its command (torch/csrc/distributed/rpc/utils.cpp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from squall.real.autograd.messages import (
    CleanupAutogradContextReq,
    PropagateGradientsReq,
    RpcWithAutograd,
    RRefBackwardReq,
)
from squall.real.rpc.commands import (
    PythonCall,
    PythonRemoteCall,
    PythonRRefFetchCall,
    RRefChildAccept,
    RRefForkRequest,
    RRefUserDelete,
    RunWithProfilingReq,
    ScriptCall,
    ScriptRemoteCall,
    ScriptRRefFetchCall,
)
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.rref_context import rref_context
from squall.real.rpc.serialization import deserialize

if TYPE_CHECKING:
    from squall.real.process import Process

#: requests that carry a pickled call
_CALLS = frozenset(
    {
        MessageType.SCRIPT_CALL,
        MessageType.PYTHON_CALL,
        MessageType.SCRIPT_REMOTE_CALL,
        MessageType.PYTHON_REMOTE_CALL,
    }
)

_REMOTE_CALLS = (MessageType.SCRIPT_REMOTE_CALL, MessageType.PYTHON_REMOTE_CALL)
_WRAPPERS = frozenset({MessageType.FORWARD_AUTOGRAD_REQ, MessageType.RUN_WITH_PROFILING_REQ})
#: requests that may bring RRefs; no other is unpickled
PICKLED = _CALLS | _WRAPPERS


class ForwardRequest:
    """A message that travels in an autograd context, and the command inside it."""

    __slots__ = ("rpc", "wrapped", "wrapped_command")

    def __init__(self, rpc: RpcWithAutograd) -> None:
        self.rpc = rpc
        self.wrapped = rpc.wrapped_message
        self.wrapped_command: Any = None

    @classmethod
    def from_message(cls, message: Message) -> ForwardRequest:
        return cls(RpcWithAutograd.from_message(message))


_READERS: dict[MessageType, Callable[[Message], Any]] = {
    MessageType.SCRIPT_CALL: ScriptCall.from_message,
    MessageType.PYTHON_CALL: PythonCall.from_message,
    MessageType.SCRIPT_REMOTE_CALL: ScriptRemoteCall.from_message,
    MessageType.PYTHON_REMOTE_CALL: PythonRemoteCall.from_message,
    MessageType.SCRIPT_RREF_FETCH_CALL: ScriptRRefFetchCall.from_message,
    MessageType.PYTHON_RREF_FETCH_CALL: PythonRRefFetchCall.from_message,
    MessageType.RREF_USER_DELETE: RRefUserDelete.from_message,
    MessageType.RREF_FORK_REQUEST: RRefForkRequest.from_message,
    MessageType.RREF_CHILD_ACCEPT: RRefChildAccept.from_message,
    MessageType.FORWARD_AUTOGRAD_REQ: ForwardRequest.from_message,
    MessageType.BACKWARD_AUTOGRAD_REQ: PropagateGradientsReq.from_message,
    MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ: CleanupAutogradContextReq.from_message,
    MessageType.RUN_WITH_PROFILING_REQ: RunWithProfilingReq.from_message,
    MessageType.RREF_BACKWARD_REQ: RRefBackwardReq.from_message,
}


def deserialize_request(request: Message) -> Any:
    """The command in a message. Raises RuntimeError for what is no request."""
    reader = _READERS.get(request.type)
    if reader is None:
        raise RuntimeError(f"Request type {int(request.type)} not supported.")
    return reader(request)


def deserialize_python_rpc_command(worker: Process, command: Any, type: MessageType) -> None:
    """Unpickle a call, also inside wrappers, which makes its RRefs and tells of them.

    Raises what unpickling raises.
    """
    if type in _CALLS:
        if type in _REMOTE_CALLS and command.rref_id != command.fork_id:
            rref_context(worker).owner_tables.creation_started(command.rref_id)
        command.content = deserialize(worker, command.payload, command.tensors)
    elif type in _WRAPPERS:
        wrapped: Message = command.wrapped
        command.wrapped_command = deserialize_request(wrapped)
        deserialize_python_rpc_command(worker, command.wrapped_command, wrapped.type)
