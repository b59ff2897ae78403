"""RequestCallback: what a worker does with a request, from its bytes to the reply.

The steps and their names are those of torch/csrc/distributed/rpc/request_callback_no_python.cpp
and request_callback_impl.cpp.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from squall.real import tracing
from squall.real.autograd.context import ReleasedError
from squall.real.autograd.messages import (
    CleanupAutogradContextReq,
    CleanupAutogradContextResp,
    PropagateGradientsReq,
    PropagateGradientsResp,
    RRefBackwardReq,
    RRefBackwardResp,
)
from squall.real.autograd.utils import add_recv_rpc_backward, get_message_with_autograd
from squall.real.future import Future, completed, failed
from squall.real.ids import ForkId, RRefId
from squall.real.process import devices_of
from squall.real.rpc.builtin import OperatorCall, run_jit_operator
from squall.real.rpc.commands import (
    PythonCall,
    PythonRemoteCall,
    PythonResp,
    PythonRRefFetchCall,
    PythonRRefFetchRet,
    RemoteRet,
    RRefAck,
    RRefChildAccept,
    RRefForkRequest,
    RRefUserDelete,
    RunWithProfilingReq,
    RunWithProfilingResp,
    ScriptCall,
    ScriptRemoteCall,
    ScriptResp,
    ScriptRRefFetchCall,
    ScriptRRefFetchRet,
)
from squall.real.rpc.discard import take_back
from squall.real.rpc.errors import RpcError
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.profiling import LegacyProfiler, ProfilerOptions
from squall.real.rpc.py_rref import backward_owner_rref, error_of
from squall.real.rpc.replies import error_text, python_error_text, then
from squall.real.rpc.requests import (
    PICKLED,
    ForwardRequest,
    deserialize_python_rpc_command,
    deserialize_request,
)
from squall.real.rpc.rref import PY_OBJECT
from squall.real.rpc.rref_context import RRefContext, rref_context
from squall.real.rpc.serialization import RemoteException, run_function, serialize
from squall.real.rpc.server_profiling import profiled_request, server_profiles
from squall.real.runtime import current_task
from squall.real.streams import on_streams

if TYPE_CHECKING:
    from squall.real.worker import Worker

logger = logging.getLogger(__name__)


class RequestCallback:
    """The handlers of one worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._handlers: dict[MessageType, Callable[[Any], Future[Message]]] = {
            MessageType.SCRIPT_CALL: self.process_script_call,
            MessageType.PYTHON_CALL: self.process_python_call,
            MessageType.SCRIPT_REMOTE_CALL: self.process_script_remote_call,
            MessageType.PYTHON_REMOTE_CALL: self.process_python_remote_call,
            MessageType.SCRIPT_RREF_FETCH_CALL: self.process_script_rref_fetch_call,
            MessageType.PYTHON_RREF_FETCH_CALL: self.process_python_rref_fetch_call,
            MessageType.RREF_USER_DELETE: self.process_rref_user_delete,
            MessageType.RREF_FORK_REQUEST: self.process_rref_fork_request,
            MessageType.RREF_CHILD_ACCEPT: self.process_rref_child_accept,
            MessageType.FORWARD_AUTOGRAD_REQ: self.process_forward_autograd_req,
            MessageType.BACKWARD_AUTOGRAD_REQ: self.process_backward_autograd_req,
            MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ: self.process_cleanup_autograd_context_req,
            MessageType.RUN_WITH_PROFILING_REQ: self.process_run_with_profiling_req,
            MessageType.RREF_BACKWARD_REQ: self.process_rref_backward,
        }

    # -- the frame around every handler ---------------------------------------------------

    def process_message(self, request: Message) -> Future[Message]:
        """Handle a request: a future of the reply. Never raises.

        RRefs among its arguments are made while it is unpickled; the handler runs once their
        owners know of all of them, on the task that brings the last confirmation.
        """
        tracer = self.worker.tracer
        if not tracer.enabled:
            return self._process(request)
        src, type, id = request.src, request.type._name_, request.id
        tracer.emit(tracing.HANDLER_STARTED, src, type, id)
        reply = self._process(request)

        def ended(reply: Future[Message]) -> None:
            error = reply.error
            text = None if error is None else str(error)
            tracer.emit(tracing.HANDLER_ENDED, src, type, id, text)

        reply.add_callback(ended)
        return reply

    def _process(self, request: Message) -> Future[Message]:
        type = request.type
        context: RRefContext | None = None
        command: Any = None
        try:
            context = rref_context(self.worker)
            if type not in PICKLED:
                return self.process_rpc_with_errors(deserialize_request(request), type)
            context.user_tables.record_pending_rrefs()
            command = deserialize_request(request)
            deserialize_python_rpc_command(self.worker, command, type)
            confirmed = context.user_tables.wait_for_pending_rrefs()
        except Exception as error:
            if context is not None:
                context.user_tables.clear_pending_rrefs()
            return self._abandon(command, self.handle_error(error, type))
        if confirmed is None:
            return self.process_rpc_with_errors(command, type)

        def run(confirmed: Future[None]) -> Future[Message]:
            error = confirmed.error
            if error is not None:
                return self._abandon(command, failed(error, runtime=self.worker.runtime))
            tracer = self.worker.tracer
            if tracer.enabled:
                tracer.emit(tracing.HANDLER_RESUMED, request.src, type.name, request.id)
            with on_streams(request.streams):  # of the request: this task is another one's
                return self.process_rpc_with_errors(command, type)

        return confirmed.then_async(run)

    def _abandon(self, command: Any, reply: Future[Message]) -> Future[Message]:
        """The request ends here: if it was to create an RRef, that will have no value."""
        while command is not None and hasattr(command, "wrapped_command"):
            command = command.wrapped_command
        context = self.worker.rref_context
        if context is not None and isinstance(command, ScriptRemoteCall | PythonRemoteCall):
            context.owner_tables.creation_failed(command.rref_id, str(reply.error))
        return reply

    def process_rpc_with_errors(self, rpc: Any, type: MessageType) -> Future[Message]:
        """Run the handler; what it raises becomes the reply."""
        profiles = server_profiles(self.worker)
        try:
            if profiles:
                return profiled_request(profiles, self.process_rpc, rpc, type)
            return self.process_rpc(rpc, type)
        except Exception as error:
            return self._abandon(rpc, self.handle_error(error, type))

    def process_rpc(self, rpc: Any, type: MessageType) -> Future[Message]:
        """Run the handler of a command. Raises what the handler raises."""
        return self._handlers[type](rpc)

    def handle_error(self, error: BaseException, type: MessageType) -> Future[Message]:
        """The reply to a request that could not be handled: an error that names this worker."""
        text = f"Error on Node {self.worker.id}: {error_text(error)}"
        logger.error("Received error while processing request type %d: %s", int(type), text)
        return failed(RpcError(text), runtime=self.worker.runtime)

    def _completed(self, message: Message) -> Future[Message]:
        return completed(message, runtime=self.worker.runtime)

    # -- calls --------------------------------------------------------------------------

    def process_script_call(self, call: ScriptCall) -> Future[Message]:
        """Run a torch operator."""
        value = self._run_operator(call)
        return then(value, lambda value: ScriptResp(*serialize(self.worker, value)).to_message())

    def process_python_call(self, call: PythonCall) -> Future[Message]:
        """Run a Python function. What it raises is a value: the caller raises it."""
        value = self._run_python_udf(call)
        return then(value, lambda value: PythonResp(*serialize(self.worker, value)).to_message())

    def process_script_remote_call(self, call: ScriptRemoteCall) -> Future[Message]:
        """Run a torch operator and keep the result as the value of an RRef."""
        value = self._run_operator(call)
        return self.assign_owner_rref(call.rref_id, call.fork_id, value, call.type_str)

    def process_python_remote_call(self, call: PythonRemoteCall) -> Future[Message]:
        """Run a Python function and keep the result as the value of an RRef."""
        value = self._run_python_udf(call)
        return self.assign_owner_rref(call.rref_id, call.fork_id, value, PY_OBJECT)

    def _run_operator(self, call: ScriptCall | ScriptRemoteCall) -> Future[Any]:
        operator = OperatorCall(*call.content)
        call.content = None
        tracer = self.worker.tracer
        if tracer.enabled:
            tracer.emit(tracing.UDF_STARTED, operator.name)
        value: Future[Any] = Future(runtime=self.worker.runtime, what=operator.name)
        try:
            value.try_complete(run_jit_operator(operator))
        except Exception as error:
            value.try_fail(RpcError(str(error)))
        if tracer.enabled:
            text = None if value.error is None else str(value.error)
            tracer.emit(tracing.UDF_ENDED, operator.name, text)
        return value

    def _run_python_udf(self, call: PythonCall | PythonRemoteCall) -> Future[Any]:
        udf, call.content = call.content, None
        runtime = self.worker.runtime
        result = run_function(self.worker, udf)
        if not call.is_async_execution or isinstance(result, RemoteException):
            return completed(result, runtime=runtime)
        if isinstance(result, Future):
            devices = devices_of(self.worker)
            value: Future[Any] = Future(runtime=runtime, what=result.what, devices=devices)

            def done(result: Future[Any]) -> None:
                error = result.error
                if error is None:
                    value.try_complete(result.raw_value())
                else:
                    value.try_fail(RpcError(python_error_text(error)))

            result.add_callback(done)
            return value
        kind = type(result)
        # torch's tests look for both sentences, the first of which is pybind11's.
        return failed(
            RpcError(
                f"Unable to cast Python instance of type {kind} to C++ type '?' (#define "
                "PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details). "
                "Functions decorated with @rpc.async_function must return a "
                f"torch.futures.Future object, but got {kind.__module__}.{kind.__qualname__}"
            ),
            runtime=runtime,
        )

    # -- RRefs --------------------------------------------------------------------------

    def assign_owner_rref(
        self, rref_id: RRefId, fork_id: ForkId, value_future: Future[Any], type_str: str
    ) -> Future[Message]:
        """Give an RRef its value once that is there; only then is the creator answered.

        Equal ids mean that the creator is this worker, which made the owner object itself.
        """
        context = rref_context(self.worker)
        if rref_id == fork_id:
            owner = context.owner_tables.get_owner_rref(rref_id, force_created=True).raw_value()
        else:
            owner = context.owner_tables.create_owner_of_remote(rref_id, fork_id, type_str)
        reply: Future[Message] = Future(runtime=self.worker.runtime, what=rref_id)

        def assign(value_future: Future[Any]) -> None:
            error = value_future.error
            if error is None:
                owner.set_value(value_future.raw_value())
            else:
                owner.set_error(error)
            reply.try_complete(RemoteRet(rref_id, fork_id).to_message())

        value_future.add_callback(assign)
        return reply

    def retrieve_owner_rref(self, rref_id: RRefId) -> Future[Any]:
        """A future of the value of an RRef, which need not have been created yet."""
        owner = rref_context(self.worker).owner_tables.get_owner_rref(rref_id)
        if owner.is_done and owner.error is None:
            return owner.raw_value().future
        return owner.then_async(lambda owner: owner.raw_value().future)

    def process_script_rref_fetch_call(self, call: ScriptRRefFetchCall) -> Future[Message]:
        """Answer with the value of an RRef, or the error in its place, once it is there."""
        return self._fetch(call.rref_id, ScriptRRefFetchRet)

    def process_python_rref_fetch_call(self, call: PythonRRefFetchCall) -> Future[Message]:
        """Answer with the value of an RRef, or the error in its place, once it is there."""
        return self._fetch(call.rref_id, PythonRRefFetchRet)

    def _fetch(
        self, rref_id: RRefId, answer: type[ScriptRRefFetchRet] | type[PythonRRefFetchRet]
    ) -> Future[Message]:
        value_future = self.retrieve_owner_rref(rref_id)
        tracer = self.worker.tracer
        if tracer.enabled:

            def fetched(value: Future[Any]) -> None:
                error = str(value.error) if value.error else error_of(value.raw_value())
                tracer.emit(tracing.RREF_FETCHED, tuple(rref_id), error)

            value_future.add_callback(fetched)
        return then(value_future, lambda value: answer(*serialize(self.worker, value)).to_message())

    def process_rref_user_delete(self, call: RRefUserDelete) -> Future[Message]:
        """A user is gone: forget its fork, and the value with the last one."""
        context = rref_context(self.worker)
        if call.abandoned:
            context.owner_tables.del_abandoned_fork(call.rref_id, call.fork_id)
        else:
            context.owner_tables.del_fork_of_owner(call.rref_id, call.fork_id)
        return self._completed(RRefAck().to_message())

    def process_rref_child_accept(self, call: RRefChildAccept) -> Future[Message]:
        """The owner knows a child: its parent need not be kept for it."""
        rref_context(self.worker).user_tables.del_pending_child(call.fork_id)
        return self._completed(RRefAck().to_message())

    def process_rref_fork_request(self, call: RRefForkRequest) -> Future[Message]:
        """A user got its reference from another user: register its fork."""
        owner_tables = rref_context(self.worker).owner_tables
        owner_tables.add_fork_of_owner_if_not_present(call.rref_id, call.fork_id)
        return self._completed(RRefAck().to_message())

    # -- autograd -----------------------------------------------------------------------

    def process_forward_autograd_req(self, request: ForwardRequest) -> Future[Message]:
        """Run the call inside under its autograd context, and record the reply there too.

        A call that comes after its context was released runs without one.
        """
        worker = self.worker
        rpc = request.rpc
        context = add_recv_rpc_backward(
            worker,
            rpc.metadata,
            request.wrapped.tensors,
            rpc.from_worker_id,
            recorded=rpc.recorded,
            request=True,
        )
        if context is None:
            return self.process_rpc(request.wrapped_command, request.wrapped.type)
        context_id = context.context_id
        task = current_task()
        before, task.autograd_context_id = task.autograd_context_id, context_id
        try:
            reply = self.process_rpc(request.wrapped_command, request.wrapped.type)
        finally:
            task.autograd_context_id = before

        def wrap(message: Message) -> Message:
            # Not the task that ran the call, perhaps: it has a context of its own, or none.
            task = current_task()
            before, task.autograd_context_id = task.autograd_context_id, context_id
            try:
                return get_message_with_autograd(
                    worker,
                    rpc.from_worker_id,
                    message,
                    MessageType.FORWARD_AUTOGRAD_RESP,
                    recorded=rpc.recorded,
                )
            except ReleasedError:  # meanwhile
                return message
            finally:
                task.autograd_context_id = before

        return then(reply, wrap)

    def process_backward_autograd_req(self, req: PropagateGradientsReq) -> Future[Message]:
        """Take gradients to the send function they belong to, and run the engine from there."""
        worker = self.worker
        if worker.container is None or worker.engine is None:
            raise RuntimeError("distributed autograd is not initialized on this worker")
        context = worker.container.retrieve_context(req.metadata.context_id)
        send_function = context.retrieve_send_function(req.metadata.message_id)
        done = worker.engine.execute_send_function_async(context, send_function, req)
        return then(done, lambda _: PropagateGradientsResp().to_message())

    def process_cleanup_autograd_context_req(
        self, req: CleanupAutogradContextReq
    ) -> Future[Message]:
        """Release a context here, which tells the workers that this one knows."""
        container = self.worker.container
        passed_on = container is None or container.release_context_if_present(req.context_id)
        return self._completed(CleanupAutogradContextResp(passed_on).to_message())

    def process_rref_backward(self, req: RRefBackwardReq) -> Future[Message]:
        """Run a whole backward pass from the value of an RRef once it is there; blocks a task."""

        def run(value: Any) -> Message:
            backward_owner_rref(req.autograd_context_id, req.retain_graph, value)
            return RRefBackwardResp().to_message()

        return then(self.retrieve_owner_rref(req.rref_id), run)

    # -- profiling ----------------------------------------------------------------------

    def process_run_with_profiling_req(self, rpc: RunWithProfilingReq) -> Future[Message]:
        """Run the call inside under the profiler; the events travel with the reply."""
        profiler = LegacyProfiler(self.worker, ProfilerOptions(*map(bool, rpc.config)))
        with profiler.here():
            reply = self.process_rpc(rpc.wrapped_command, rpc.wrapped.type)

        def wrap(message: Message) -> Message:
            try:
                return RunWithProfilingResp(
                    message, rpc.profiling_id, profiler.finish()
                ).to_message()
            except BaseException:
                take_back(self.worker, rpc.wrapped.src, message)
                raise

        return then(reply, wrap)
