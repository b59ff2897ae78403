"""DistAutogradContext: what one context keeps on one worker
(torch/csrc/distributed/autograd/context/context.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from squall.real import tracing
from squall.real.autograd.accumulate import accumulate_grad
from squall.real.autograd.graph_task import current_graph_task
from squall.real.autograd.messages import AutogradMetadata, PropagateGradientsReq
from squall.real.future import Future, collect_all
from squall.real.rpc.message import Message
from squall.real.runtime import current_task
from squall.real.streams import streams_of

if TYPE_CHECKING:
    from types import TracebackType

    from squall.real.autograd.functions import SendRpcBackward
    from squall.real.autograd.graph_task import GraphTask
    from squall.real.ids import AutogradMessageId, ContextId, PassId, WorkerId
    from squall.real.process import Process
    from squall.real.rpc.options import DeviceMap

_CONTEXT_KEY = "dist autograd context of the hook that runs"


class ReleasedError(RuntimeError):
    """A context was released before something could be recorded in it."""

    def __init__(self) -> None:
        super().__init__("Couldn't find autograd context data for current autograd context id")


def no_context(context_id: ContextId) -> RuntimeError:
    """What those meet who look for a context that was released, or never made, on their worker."""
    return RuntimeError(f"Could not find autograd context with id: {context_id}")


def no_send_function(message_id: AutogradMessageId) -> RuntimeError:
    """What gradients meet that come for a message whose send function is not there any more."""
    return RuntimeError(f"Could not find send function for autograd message id: {message_id}")


def context_is_gone() -> RuntimeError:
    """What a recv function meets whose context was released before it ran."""
    return RuntimeError(
        "Autograd context no longer valid! This usually means the autograd context was "
        "cleaned up by a different thread due to an error before RecvRpcBackward had a "
        "chance to run"
    )


def of_another_context(own: ContextId, other: ContextId, sender: WorkerId) -> RuntimeError:
    """What a recv function of context ``own`` meets in a pass of ``other``. PyTorch, which looks for
    a pass of ``own``, fails an assertion, or adds to that pass if there is one."""
    return RuntimeError(
        f"a backward pass of autograd context {other} has reached tensors that came from worker "
        f"{sender} in autograd context {own}: only a pass of that context can go on there"
    )


class DistAutogradContext:
    """Send and recv functions, known workers, gradients, and the pass that runs, if any.

    Everything is guarded by one lock; user code never runs under it.
    """

    def __init__(self, worker: Process, context_id: ContextId) -> None:
        self.context_id = context_id
        self._worker = worker
        self._lock = worker.runtime.lock("autograd context")
        #: how many messages went to each; one that was told by somebody else has none
        self._known_workers: dict[WorkerId, int] = {}
        self._sends: dict[AutogradMessageId, SendRpcBackward] = {}
        self._recvs: dict[AutogradMessageId, Any] = {}
        self._grads: dict[Tensor, Tensor] = {}
        self._grad_ready_events: dict[torch.device, Any] = {}
        self._graph_task: GraphTask | None = None
        #: the context is on its way out: nothing is recorded or propagated any more
        self.released = False
        #: a known worker whose process has ended: whom it told of the context, nobody knows
        self.lost_worker: WorkerId | None = None
        #: the pass that runs here, and the last one that this worker heard of
        self.pass_id: PassId | None = None
        self.latest_pass: PassId | None = None
        #: all that began here: for each that is over what it died of, if it did
        self.passes: dict[PassId, str | None] = {}

    # -- recording ----------------------------------------------------------------------

    def add_known_worker_id(self, worker_id: WorkerId) -> None:
        """A message goes to a worker, which has to hear of the release then.

        Raises ReleasedError once the known workers are being told of it.
        """
        with self._lock:
            self._check_not_released()
            messages = self._known_workers.get(worker_id, 0)
            self._known_workers[worker_id] = messages + 1
        tracer = self._worker.tracer
        if not messages and tracer.enabled:
            tracer.emit(tracing.KNOWN_WORKER_ADDED, self.context_id, worker_id)

    def _check_not_released(self) -> None:
        if self.released:
            raise ReleasedError

    def retire(self) -> list[WorkerId]:
        """Record nothing from here on. Gives the known workers, in the order of their ids."""
        with self._lock:
            self.released = True
            return sorted(self._known_workers)

    def worker_ended(self, worker_id: WorkerId) -> None:
        if worker_id in self._known_workers:
            self.lost_worker = worker_id

    def drop_send_functions_to(self, worker_id: WorkerId) -> None:
        """The process of a worker has ended, and with it its part of the graph."""
        for message_id, function in self.send_functions().items():
            if function.to == worker_id:
                self.drop_send_function(
                    message_id, f"the connection to worker {worker_id} was closed"
                )

    def get_known_worker_ids(self) -> list[WorkerId]:
        """The workers that a message of this context went to, in the order of their ids."""
        with self._lock:
            return sorted(self._known_workers)

    def add_send_function(self, function: SendRpcBackward, message_id: AutogradMessageId) -> None:
        """Raises RuntimeError if the message has a send function already, or ReleasedError."""
        with self._lock:
            self._check_not_released()
            if message_id in self._sends:
                raise RuntimeError(f"autograd message {message_id} has two send functions")
            self._sends[message_id] = function

    def add_recv_function(self, join: Callable[[], Any], message_id: AutogradMessageId) -> None:
        """Record the node that ``join`` makes of received tensors; nothing is made in vain.

        Raises RuntimeError if the message has a recv function already, or ReleasedError.
        """
        with self._lock:
            self._check_not_released()
            if message_id in self._recvs:
                raise RuntimeError(f"autograd message {message_id} has two recv functions")
            self._recvs[message_id] = join()

    def take_back(self, message_id: AutogradMessageId, worker_id: WorkerId) -> None:
        """A message did not leave: nobody will send gradients for it, and if no other one went to
        that worker, it need not hear of the release. Beyond PyTorch, where every later pass of the
        context waits for them."""
        with self._lock:
            messages = self._known_workers.get(worker_id, 0) - 1
            if messages > 0:
                self._known_workers[worker_id] = messages
            else:
                self._known_workers.pop(worker_id, None)
        tracer = self._worker.tracer
        if messages == 0 and tracer.enabled:
            tracer.emit(tracing.KNOWN_WORKER_REMOVED, self.context_id, worker_id)
        self.drop_send_function(message_id, "it could not be sent")

    def drop_send_function(self, message_id: AutogradMessageId, why: str) -> None:
        """No gradients will come for a message: ``why``. A pass that waits for them ends with an
        error."""
        with self._lock:
            function = self._sends.pop(message_id, None)
            graph_task = self._graph_task
            waits = (
                graph_task is not None
                and function is not None
                and function in graph_task.graph_roots
                and function.fed_in != self.pass_id
            )
        if function is None:
            return
        tracer = self._worker.tracer
        if tracer.enabled:
            tracer.emit(tracing.SEND_DETACHED, self.context_id, message_id)
        if waits and graph_task is not None:
            graph_task.set_exception(
                RuntimeError(
                    f"no gradients of autograd message {message_id} will come from worker "
                    f"{function.to}: {why}"
                )
            )

    def retrieve_send_function(self, message_id: AutogradMessageId) -> SendRpcBackward:
        """Raises RuntimeError if there is none for this message."""
        function = self._sends.get(message_id)
        if function is None:
            raise no_send_function(message_id)
        return function

    def send_functions(self) -> dict[AutogradMessageId, SendRpcBackward]:
        with self._lock:
            return dict(self._sends)

    def recv_functions(self) -> dict[AutogradMessageId, Any]:
        with self._lock:
            return dict(self._recvs)

    # -- gradients ----------------------------------------------------------------------

    def accumulate_grad(
        self, graph_task: GraphTask, variable: Tensor, grad: list[Tensor | None]
    ) -> bool:
        """Add ``grad[0]``, which pass ``graph_task`` has found, unless that is over here.

        Says whether it was added. See :func:`squall.real.autograd.accumulate.accumulate_grad`.
        """
        observer = self._worker.tracer.observer
        with self._lock:
            if not self._goes_on(graph_task):
                return False
            if observer is not None and grad[0] is not None:
                observer.accumulating(
                    self._worker.id, self.context_id, graph_task.pass_id, variable, grad[0]
                )
            if variable.is_cpu:
                accumulate_grad(self._grads, variable, grad)
            else:
                self._accumulate_on_device(variable, grad)
        return True

    def _accumulate_on_device(self, variable: Tensor, grad: list[Tensor | None]) -> None:
        """After what has been added on other streams, which later ones wait for in turn."""
        device = variable.device
        stream = streams_of(device).current_stream(device)
        before = self._grad_ready_events.get(device)
        if before is not None:
            stream.wait_event(before)
        old = self._grads.get(variable)
        accumulate_grad(self._grads, variable, grad)
        if old is not None:
            old.record_stream(stream)
        self._grads[variable].record_stream(stream)
        self._grad_ready_events[device] = stream.record_event()

    def get_gradients(self) -> dict[Tensor, Tensor]:
        """The gradients so far, by variable. The current stream of their device waits for them."""
        with self._lock:
            for device, event in self._grad_ready_events.items():
                stream = streams_of(device).current_stream(device)
                stream.wait_event(event)
                for grad in self._grads.values():
                    if grad.device == device:
                        grad.record_stream(stream)
            return dict(self._grads)

    def live_gradients(self) -> dict[Tensor, Tensor]:
        """The map itself, for an observer, which may look at it later."""
        return self._grads

    def run_grad_callback_for_variable(
        self, variable: Tensor, callback: Callable[[Tensor], Tensor | None]
    ) -> None:
        """Let ``callback`` look at the gradient of ``variable``, and replace it by what it
        returns unless that is None. Raises RuntimeError if there is no gradient.

        In a hook of a pass that is over by then, the gradient stays what it is.
        """
        with self._lock:
            grad = self._grads.get(variable)
        if grad is None:
            raise RuntimeError("the autograd context has no gradient for this variable")
        replaced = callback(grad)
        if replaced is not None:
            graph_task = current_graph_task()
            with self._lock:
                if graph_task is None or self._goes_on(graph_task):
                    self._grads[variable] = replaced

    # -- the pass that runs -------------------------------------------------------------

    def set_graph_task(self, graph_task: GraphTask) -> bool:
        """False, and none is set, if a send function under which it begins was dropped since they were
        read: nobody would tell the pass, and it would wait for the gradients. Raises RuntimeError if
        there is one already, and if the context has been released since it was found."""
        with self._lock:
            if self.released:
                raise no_context(self.context_id)
            if self._graph_task is not None:
                raise RuntimeError("another backward pass runs in this autograd context already")
            attached = set(self._sends.values())
            if not attached.issuperset(graph_task.graph_roots[1:]):
                return False
            self._graph_task = graph_task
            return True

    def retrieve_graph_task(self) -> GraphTask:
        """Raises RuntimeError outside a pass."""
        graph_task = self._graph_task
        if graph_task is None:
            raise RuntimeError("no backward pass runs in this autograd context")
        return graph_task

    def has_graph_task(self, graph_task: GraphTask) -> bool:
        return self._graph_task is graph_task

    def _goes_on(self, graph_task: GraphTask) -> bool:
        """Whether a pass is the one that runs here, and has not failed. The lock is held."""
        return self._graph_task is graph_task and not graph_task.has_error and not self.released

    def reset_graph_task(self) -> None:
        with self._lock:
            self._graph_task = None

    def propagate_gradients(
        self,
        to: WorkerId,
        message_id: AutogradMessageId,
        grads: Sequence[Tensor],
        graph_task: GraphTask,
        device_map: DeviceMap | None = None,
    ) -> None:
        """Send gradients to the worker where a message came from, as a part of ``graph_task``.

        ``device_map``: where those on each device go there; None: by the map to that worker.

        Nothing is sent for a pass that is over here: another one may run. Raises RuntimeError if the
        context was released, and if the pass is one of another context: that has no send function for
        these gradients, and no pass of this one may be given them.
        """
        agent = self._worker.agent
        if agent is None:
            raise RuntimeError("RPC is not running")
        metadata = AutogradMetadata(self.context_id, message_id)
        tracer = self._worker.tracer
        with self._lock:
            if self.released:
                raise context_is_gone()
            if graph_task.context is not self:
                raise of_another_context(self.context_id, graph_task.context.context_id, to)
            if self._graph_task is not graph_task or graph_task.has_error:
                return
            pass_id, retain_graph = graph_task.pass_id, graph_task.keep_graph
            if tracer.observer is not None:
                tracer.observer.propagating(self._worker.id, self.context_id, pass_id)
            if tracer.enabled:
                tracer.emit(tracing.GRADIENTS_SENT, self.context_id, message_id, to)
        request = PropagateGradientsReq(metadata, grads, retain_graph, pass_id)
        self.add_outstanding_rpc(
            graph_task, agent.send(to, request.to_message(), device_map=device_map)
        )

    def add_outstanding_rpc(self, graph_task: GraphTask, future: Future[Message]) -> None:
        """A pass is over only when its RPCs are; an error of one ends it at once."""

        def failed_early(rpc: Future[Message]) -> None:
            # Of the pass that sent it: a late failure must not touch the one that runs now.
            if rpc.error is not None:
                graph_task.set_exception(rpc.error)

        with self._lock:
            graph_task.outstanding_rpcs.append(future)
        future.add_callback(failed_early)

    def clear_and_wait_for_outstanding_rpcs_async(self, graph_task: GraphTask) -> Future[None]:
        """Complete when all RPCs of a pass are, or failed with the first error."""
        with self._lock:
            rpcs, graph_task.outstanding_rpcs = graph_task.outstanding_rpcs, []
        result: Future[None] = Future(runtime=self._worker.runtime, what="gradients sent")
        for rpc in rpcs:
            rpc.add_callback(lambda done: done.error is not None and result.try_fail(done.error))
        if not rpcs:
            result.try_complete(None)
        else:
            collect_all(rpcs).add_callback(lambda _: result.try_complete(None))
        return result

    def release(self) -> None:
        """Called as the container drops the context: a pass that only waits is given up."""
        graph_task = self._graph_task
        if graph_task is not None and not graph_task.runners:
            self.give_up_pass(graph_task)

    def give_up_pass(self, graph_task: GraphTask) -> None:
        """End a pass that waits for gradients which will not come any more."""
        graph_task.set_exception(
            RuntimeError(
                f"autograd context {self.context_id} was released while worker "
                f"{self._worker.id} waited for gradients of {graph_task.outstanding_tasks} "
                "send functions"
            )
        )

    # -- torch's names for users --------------------------------------------------------

    def _context_id(self) -> ContextId:
        return self.context_id

    def _known_worker_ids(self) -> set[WorkerId]:
        return set(self.get_known_worker_ids())

    def _send_functions(self) -> dict[AutogradMessageId, SendRpcBackward]:
        return self.send_functions()

    def _recv_functions(self) -> dict[AutogradMessageId, Any]:
        return self.recv_functions()


class ThreadLocalDistAutogradContext:
    """While hooks of an AccumulateGrad run, says which context the gradient belongs to."""

    __slots__ = ("_context", "_last", "_locals")

    def __init__(self, context: DistAutogradContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._locals = current_task().locals
        self._last = self._locals.get(_CONTEXT_KEY)
        self._locals[_CONTEXT_KEY] = self._context

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._locals[_CONTEXT_KEY] = self._last

    @staticmethod
    def get_context_ptr() -> DistAutogradContext | None:
        found: DistAutogradContext | None = current_task().locals.get(_CONTEXT_KEY)
        return found
