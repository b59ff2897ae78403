"""Creating an RRef by a call: what ``rpc.remote`` sends, and what becomes of it.

(torch/csrc/distributed/rpc/python_functions.cpp: pyRemoteBuiltin, pyRemotePythonUdf; rref_context.cpp)
"""

from __future__ import annotations

from collections.abc import Callable

from squall.real.autograd.utils import send_message_with_autograd
from squall.real.future import Future, plain_errors
from squall.real.ids import ForkId, RRefId
from squall.real.process import Process
from squall.real.rpc.commands import Command, RemoteRet
from squall.real.rpc.constants import UNSET_RPC_TIMEOUT
from squall.real.rpc.errors import RpcError
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.profiling import ProfiledCall
from squall.real.rpc.rref import PY_OBJECT, TIMED_OUT, OwnerRRef, UserRRef
from squall.real.rpc.rref_context import RRefContext, rref_context
from squall.real.rpc.worker_info import WorkerInfo

#: makes the command that creates an RRef, out of its id and its creator's fork id
CreationCall = Callable[[RRefId, ForkId], Command]


def create_rref(
    worker: Process,
    dst: WorkerInfo,
    call: CreationCall,
    *,
    timeout_s: float = UNSET_RPC_TIMEOUT,
    force_grad_recording: bool = False,
    profiled: ProfiledCall | None = None,
) -> OwnerRRef | UserRRef:
    """Send ``call(rref_id, fork_id)`` to ``dst`` and return a reference to what it returns.

    Does not wait. ``timeout_s`` (-1 the default, 0 none) is for the creation: an RRef that was
    not created in time raises at its next use.
    """
    context = rref_context(worker)
    if dst.id == worker.id:
        return _remote_to_self(context, call, timeout_s, force_grad_recording, profiled)
    user = context.create_user_rref(dst.id)
    try:
        command = call(user.rref_id, user.fork_id)
        user.type_str = getattr(command, "type_str", PY_OBJECT)
        context.user_tables.add_pending_user(user.fork_id, user)
        reply = _send(
            worker, dst.id, command.to_message(), timeout_s, force_grad_recording, profiled
        )
    except BaseException:
        user.deleted = True  # the owner never hears of it
        context.user_tables.discard_pending_user(user.fork_id)
        raise
    _watch_creation(context, user.rref_id, user.fork_id, reply)
    user.creation_future = reply.map(_nothing)
    return user


def _remote_to_self(
    context: RRefContext,
    call: CreationCall,
    timeout_s: float,
    force_grad_recording: bool,
    profiled: ProfiledCall | None,
) -> OwnerRRef | UserRRef:
    worker = context.worker
    owner = context.create_owner_rref()
    # The RRef's id in the place of the fork's tells the handler that the object exists.
    command = call(owner.rref_id, owner.rref_id)
    owner.type_str = getattr(command, "type_str", PY_OBJECT)
    context.owner_tables.add_self_as_fork(owner)
    try:
        reply = _send(
            worker, worker.id, command.to_message(), timeout_s, force_grad_recording, profiled
        )
    except BaseException:
        context.owner_tables.del_fork_of_owner(owner.rref_id, owner.rref_id)
        raise
    rref_id = owner.rref_id
    reply.add_callback(lambda reply: finish_creating_owner_rref(context, rref_id, reply))
    owner.creation_future = reply.map(_nothing)
    return owner


def _send(
    worker: Process,
    to: int,
    message: Message,
    timeout_s: float,
    force_grad_recording: bool,
    profiled: ProfiledCall | None,
) -> Future[Message]:
    return send_message_with_autograd(
        worker,
        to,
        message,
        force_grad_recording=force_grad_recording,
        timeout_s=timeout_s,
        profiled=profiled,
    )


def _nothing(reply: Future[Message]) -> None:
    with plain_errors():  # users wait for it
        reply.raw_value()


def _watch_creation(
    context: RRefContext, rref_id: RRefId, fork_id: ForkId, reply: Future[Message]
) -> None:
    """Confirm the user when the reply comes. The callback holds ids, never the user."""
    reply.add_callback(lambda reply: confirm_pending_user(context, rref_id, fork_id, reply))


def confirm_pending_user(
    context: RRefContext, rref_id: RRefId, fork_id: ForkId, reply: Future[Message]
) -> None:
    """The creation has been answered, or has failed: the user's wait is over either way."""
    error = reply.error
    if error is None:
        error = _check_answer(rref_id, fork_id, reply.raw_value())
    if error is not None:
        context.user_tables.get_pending_user(fork_id).abandoned = True
    context.user_tables.end_pending_user(fork_id, error)


def finish_creating_owner_rref(
    context: RRefContext, rref_id: RRefId, reply: Future[Message]
) -> None:
    """The creation on oneself has been answered: the table lets the object go unless forked."""
    error = reply.error
    if error is None:
        error = _check_answer(rref_id, rref_id, reply.raw_value())
    if error is not None:
        owner = context.owner_tables.get_owner_rref(rref_id, force_created=True).raw_value()
        owner.handle_error(error)
        owner.set_error(RpcError(TIMED_OUT) if owner.timed_out else error)
    context.owner_tables.del_fork_of_owner(rref_id, rref_id)


def _check_answer(rref_id: RRefId, fork_id: ForkId, message: Message) -> RpcError | None:
    if message.type == MessageType.REMOTE_RET:
        answer = RemoteRet.from_message(message)
        if answer.rref_id == rref_id and answer.fork_id == fork_id:
            return None
    return RpcError(f"{message!r} does not answer the creation of RRef {rref_id}")
