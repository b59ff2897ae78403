"""Fetching the value of an RRef from its owner (torch/csrc/distributed/rpc/rref_impl.cpp)."""

from __future__ import annotations

from typing import Any

from squall.real.autograd.utils import send_message_with_autograd, unwrap_forward_response
from squall.real.future import Future
from squall.real.rpc.commands import PythonRRefFetchCall, ScriptRRefFetchCall
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.rref import PY_OBJECT, UserRRef
from squall.real.rpc.serialization import deserialize


def fetch(user: UserRRef, timeout_s: float) -> Any:
    """A copy of the value that ``user`` refers to, blocking.

    ``timeout_s``: -1 the default, 0 none. What was recorded for autograd comes along. Raises
    RuntimeError after a failed creation or after deletion, and whatever the call raises.
    """
    user.check()
    if user.deleted:
        raise RuntimeError(
            f"{user!r} has been deleted. Cannot call to_here() on it after deletion."
        )
    worker = user.context.worker
    if user.type_str == PY_OBJECT:
        request = PythonRRefFetchCall(worker.id, user.rref_id).to_message()
    else:
        request = ScriptRRefFetchCall(worker.id, user.rref_id).to_message()
    future: Future[Message] | None = send_message_with_autograd(
        worker, user.owner_id, request, force_grad_recording=True, timeout_s=timeout_s
    )
    try:
        assert future is not None
        reply = unwrap_forward_response(worker, future.wait())
    finally:
        # The error's frames would hold the future that holds the error.
        future = None
    if reply.type not in (
        MessageType.SCRIPT_RREF_FETCH_RET,
        MessageType.PYTHON_RREF_FETCH_RET,
    ):
        raise RuntimeError(f"{reply.type.name} is no answer to a fetch of an RRef")
    return deserialize(worker, reply.payload, reply.tensors)
