"""Wraps messages for the autograd context they belong to, and joins the graphs at both ends
(torch/csrc/distributed/autograd/utils.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from squall.real import tracing
from squall.real.autograd.container import DistAutogradContainer
from squall.real.autograd.context import ReleasedError
from squall.real.autograd.functions import SendRpcBackward
from squall.real.autograd.messages import AutogradMetadata, RpcWithAutograd
from squall.real.autograd.recv_function import RecvRpcBackward, set_history
from squall.real.rpc.constants import UNSET_RPC_TIMEOUT
from squall.real.rpc.device_copies import all_on_cpu
from squall.real.rpc.discard import take_back
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.runtime import NO_CONTEXT, current_task

if TYPE_CHECKING:
    from squall.real.autograd.context import DistAutogradContext
    from squall.real.future import Future
    from squall.real.ids import WorkerId
    from squall.real.process import Process
    from squall.real.rpc.options import DeviceMap
    from squall.real.rpc.profiling import ProfiledCall


def send_message_with_autograd(
    worker: Process,
    dst: WorkerId,
    message: Message,
    *,
    force_grad_recording: bool = False,
    timeout_s: float = UNSET_RPC_TIMEOUT,
    profiled: ProfiledCall | None = None,
) -> Future[Message]:
    """Send a request, wrapped if the task has an autograd context and there is a reason to.

    A reason is a tensor that requires grad, with grad mode on, or ``force_grad_recording``.
    ``profiled``: the call that this is, if it is to be profiled where it runs.
    Raises RuntimeError as :meth:`RpcAgent.send` does, and if the current context is gone; then
    nothing is left of the message, nor of the RRefs in it.
    """
    wrapped = message
    try:
        agent = worker.agent
        if agent is None:
            raise RuntimeError("RPC has not been initialized. Call init_rpc first.")
        wrapped = get_message_with_autograd(
            worker,
            dst,
            message,
            MessageType.FORWARD_AUTOGRAD_REQ,
            force_grad_recording=force_grad_recording,
        )
        if profiled is not None:
            reply = profiled.send(agent, dst, wrapped, timeout_s)
        else:
            reply = agent.send(dst, wrapped, timeout_s)
    except BaseException:
        take_back(worker, dst, wrapped)
        raise
    if wrapped is not message and wrapped.tensors:
        _drop_if_it_fails(worker, wrapped, reply)
    return reply


def _drop_if_it_fails(worker: Process, request: Message, reply: Future[Message]) -> None:
    """Let the send function of a call go with the call: its caller has nothing that depends on it.

    Beyond PyTorch, where every later pass in the context waits for gradients of the call.
    """
    metadata = RpcWithAutograd.metadata_of(request)

    def done(reply: Future[Message]) -> None:
        error = reply.error
        if error is not None:
            _container(worker).drop_send_function(*metadata, str(error))

    reply.add_callback(done)


def get_message_with_autograd(
    worker: Process,
    dst: WorkerId,
    message: Message,
    message_type: MessageType,
    *,
    force_grad_recording: bool = False,
    recorded: bool | None = None,
) -> Message:
    """``message`` wrapped as ``message_type`` for the context of this task, or as it is.

    ``recorded``: whether tensors that require grad are to be joined to what they become at
    ``dst``. None means: if grad mode is on. A response takes it from its request.
    """
    if current_task().autograd_context_id == NO_CONTEXT:
        return message
    if recorded is None:
        recorded = torch.is_grad_enabled()
    tensors = [t for t in message.tensors if t.requires_grad] if recorded else []
    if not tensors and not force_grad_recording:
        return message
    container = _container(worker)
    context = container.current_context()
    metadata = AutogradMetadata(context.context_id, container.new_autograd_message_id())
    context.add_known_worker_id(dst)
    try:
        if tensors:
            add_send_rpc_backward(worker, context, metadata, tensors, dst)
        return RpcWithAutograd(message_type, worker.id, metadata, message, recorded).to_message()
    except BaseException:
        context.take_back(metadata.message_id, dst)
        raise


def add_send_rpc_backward(
    worker: Process,
    context: DistAutogradContext,
    metadata: AutogradMetadata,
    tensors: Sequence[Tensor],
    dst: WorkerId,
) -> None:
    """Record that ``tensors``, all requiring grad, go to ``dst`` in one message."""
    context.add_send_function(SendRpcBackward(tensors, dst), metadata.message_id)
    tracer = worker.tracer
    if tracer.enabled:
        tracer.emit(tracing.SEND_ATTACHED, *metadata, dst, len(tensors))
    if tracer.observer is not None:
        tracer.observer.sending(worker.id, *metadata, tensors)


def add_recv_rpc_backward(
    worker: Process,
    metadata: AutogradMetadata,
    tensors: Sequence[Tensor],
    from_worker_id: WorkerId,
    *,
    recorded: bool = True,
    request: bool = False,
) -> DistAutogradContext | None:
    """Join received tensors to those that were sent; the context that it happened in.

    The context is made if this worker does not know it. None if it was released here: then
    nothing is joined and the message belongs to no context. Tensors that do not require grad,
    and all of them unless ``recorded``, stay as they are. ``request``: they came with one.
    """
    context = _container(worker).get_or_create_context(metadata.context_id)
    if context is None:
        return None
    received = [t for t in tensors if t.requires_grad] if recorded else []
    if received:
        tracer = worker.tracer
        observer = tracer.observer
        anchors = observer.anchors(worker.id, *metadata) if observer is not None else ()
        recv = RecvRpcBackward(
            metadata,
            context,
            from_worker_id,
            None if all_on_cpu(received) else _way_back(worker, from_worker_id, request),
        )
        try:
            context.add_recv_function(
                lambda: set_history(received, recv, anchors, observer), metadata.message_id
            )
        except ReleasedError:  # just now
            return None
        if tracer.enabled:
            tracer.emit(tracing.RECV_ATTACHED, *metadata, from_worker_id, len(received))
    return context


def unwrap_forward_response(worker: Process, message: Message) -> Message:
    """The response inside a wrapper, its tensors joined to the sender's; any other message as
    it is. A response that comes after the release of its context is not joined to anything."""
    if message.type != MessageType.FORWARD_AUTOGRAD_RESP:
        return message
    wrapper = RpcWithAutograd.from_message(message)
    add_recv_rpc_backward(
        worker,
        wrapper.metadata,
        wrapper.message.tensors,
        wrapper.from_worker_id,
        recorded=wrapper.recorded,
    )
    return wrapper.message


def _way_back(worker: Process, peer: WorkerId, request: bool) -> DeviceMap:
    agent = worker.agent
    return {} if agent is None else agent.way_back(peer, request=request)


def _container(worker: Process) -> DistAutogradContainer:
    container = worker.container
    if not isinstance(container, DistAutogradContainer):
        raise RuntimeError(
            "Need to initialize distributed autograd using torch.distributed.autograd.init()"
        )
    return container
