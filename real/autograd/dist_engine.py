"""DistEngine: backward passes over the graphs of many workers
(torch/csrc/distributed/autograd/engine/dist_engine.cpp).

Every worker runs its own part of a pass, from the root that the user gave or from the gradients
that arrive. "FAST mode": each send function of a context is taken to receive gradients in every
pass, so a pass in which one never does is not over before its context is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from squall.real import tracing
from squall.real.autograd.capture_hook import DistAccumulateGradCaptureHook
from squall.real.autograd.context import DistAutogradContext, no_send_function
from squall.real.autograd.describe import trace_beginning, trace_end
from squall.real.autograd.device_threads import DeviceThreads
from squall.real.autograd.engine import ACCUMULATE, KINDS, RECV, Engine
from squall.real.autograd.functions import GraphRoot, SendRpcBackward, gradient_edge
from squall.real.autograd.graph_task import CPU_DEVICE, GraphTask, GraphTaskGuard, NodeTask
from squall.real.autograd.input_buffer import InputBuffer
from squall.real.autograd.messages import PropagateGradientsReq
from squall.real.autograd.profiled_pass import current_profiler, in_ranges, pass_range
from squall.real.autograd.ready_queue import ReadyQueue
from squall.real.future import Future, FutureError, completed
from squall.real.ids import ContextId, IdSource, PassId, is_before, maker_of

if TYPE_CHECKING:
    from squall.real.autograd.container import DistAutogradContainer
    from squall.real.autograd.node import Edge, Node
    from squall.real.autograd.profiled_pass import Evaluate
    from squall.real.process import Process
    from squall.real.rpc.profiling import LegacyProfiler


_NO_STREAMS = nullcontext()
#: what a pass dies of, on a worker that the next one has reached
_OVERTAKEN = "a later backward pass has begun in this autograd context"


class DistEngine:
    """Runs the parts of backward passes that belong to one worker."""

    def __init__(self, worker: Process, container: DistAutogradContainer) -> None:
        self._worker = worker
        self._container = container
        self._pass_ids = IdSource(container.worker_id, worker.incarnation)
        self._runtime = worker.runtime
        self._tracer = worker.tracer
        self._engine = Engine(worker)
        self._lock = worker.runtime.lock("contexts with a backward pass")
        self._initialized_context_ids: dict[ContextId, None] = {}
        self._devices = DeviceThreads(worker, self._engine, self._launch)

    # -- a pass that starts here ----------------------------------------------------------

    def execute(self, context_id: ContextId, roots: Sequence[Tensor], retain_graph: bool) -> None:
        """Run a whole pass from ``roots`` and wait until all workers have done their parts.

        Gradients are added to the context. Raises RuntimeError if there is no such context, if
        the roots are unfit, if a pass runs in the context already, and if anything fails: then
        with the text "Error on Node <id>: ..." for each worker that the error came through.
        """
        context = self._container.retrieve_context(context_id)
        roots = list(roots)
        root_edges, grads = self.validate_roots_and_retrieve_edges(roots)
        profiler = current_profiler()
        if profiler is None:
            self._execute(context, roots, GraphRoot(root_edges, grads, roots), retain_graph)
        else:
            with pass_range(profiler):
                self._execute(
                    context, roots, GraphRoot(root_edges, grads, roots), retain_graph, profiler
                )

    def _execute(
        self,
        context: DistAutogradContext,
        roots: Sequence[Tensor],
        graph_root: GraphRoot,
        retain_graph: bool,
        profiler: LegacyProfiler | None = None,
    ) -> None:
        graph_task: GraphTask | None = None
        pass_id: PassId | None = None
        observer = self._tracer.observer
        # Errors are told where they are caught: a variable of this frame that kept one would keep
        # the frame, and with it all that its callers have, until somebody collects garbage.
        try:
            with self._lock:
                if context.context_id in self._initialized_context_ids:
                    raise RuntimeError(
                        "A backward pass is already running in autograd context "
                        f"{context.context_id} on worker {self._worker.id}"
                    )
                pass_id = self._pass_ids.next()
                if observer is not None:
                    place = self._worker.id, context.context_id
                    observer.backward_started(*place, pass_id, roots, retain_graph)
                graph_task = self.compute_dependencies(context, pass_id, graph_root, retain_graph)
                graph_task = self._begin(context, graph_task)
                graph_task.profiler = profiler
            self.run_engine_and_accumulate_gradients(graph_task, graph_root).wait()
            context.clear_and_wait_for_outstanding_rpcs_async(graph_task).wait()
        except BaseException as error:
            if graph_task is not None:
                self.cleanup_backward_pass(context, graph_task, error)
            if observer is not None and pass_id is not None:
                observer.backward_ended(self._worker.id, context.context_id, pass_id, error)
            raise
        self.cleanup_backward_pass(context, graph_task, None)
        if observer is not None:
            observer.backward_ended(self._worker.id, context.context_id, pass_id, None)

    def validate_roots_and_retrieve_edges(
        self, roots: Sequence[Tensor]
    ) -> tuple[tuple[Edge, ...], list[Tensor]]:
        """The gradient edges of the roots, and a one for each.

        Raises RuntimeError; the texts begin with the name of a tensor, which is empty.
        """
        if not roots:
            raise RuntimeError("No tensors provided for gradient computation.")
        edges = []
        grads = []
        for root in roots:
            if not root.requires_grad:
                raise RuntimeError("requires_grad not set on root")
            if root.numel() != 1:
                raise RuntimeError(" is not a scalar, all roots need to be scalar")
            if root.grad_fn is None:
                raise RuntimeError(" does not have a valid gradient function.")
            edges.append(gradient_edge(root))
            grads.append(torch.ones_like(root, memory_format=torch.contiguous_format))
        return tuple(edges), grads

    # -- a pass that another worker started -----------------------------------------------

    def execute_send_function_async(
        self,
        context: DistAutogradContext,
        send_function: SendRpcBackward,
        request: PropagateGradientsReq,
    ) -> Future[None]:
        """Go on with a pass from the gradients of one message, which ``send_function`` is given.

        The first arrival on this worker starts its part of the pass: the future is complete
        when all of that is done, here and beyond. Every later one is complete at once, since
        whoever sent the first one waits already. Raises RuntimeError if the pass is over.
        """
        graph_task, first = self._join_pass(context, send_function, request)
        if graph_task.device_queue is not None:
            self._devices.wait_for_grads(graph_task, request.grads)
        if not first:
            self._launch(NodeTask(graph_task, send_function, InputBuffer(0)), False)
            return completed(None, runtime=self._runtime)
        return self._run_part(context, graph_task, send_function)

    def _join_pass(
        self,
        context: DistAutogradContext,
        send_function: SendRpcBackward,
        request: PropagateGradientsReq,
    ) -> tuple[GraphTask, bool]:
        """This worker's part of the pass that gradients belong to, and whether they begin it.

        A pass that still runs in the context is over then. Raises RuntimeError if this one is, and
        if the call that the gradients are of has failed meanwhile, which took its send function
        with it.
        """
        pass_id = request.pass_id
        overtaken: GraphTask | None = None
        dropped = False
        try:
            with self._lock:
                running = context.pass_id
                first = running != pass_id
                if first:
                    self._check_not_over(context, pass_id)
                    graph_task = self.compute_dependencies(
                        context, pass_id, GraphRoot(), request.retain_graph
                    )
                    self._check_attached(send_function, graph_task, request)
                    if running is not None:
                        overtaken = context.retrieve_graph_task()
                        overtaken.set_exception_without_signal()  # its runners stop from here on
                        self._end(context, overtaken, _OVERTAKEN)
                    graph_task = self._begin(context, graph_task)
                    if send_function not in graph_task.nodes_in_graph:
                        dropped = True
                        graph_task.set_exception_without_signal()
                        self._end(
                            context, graph_task, str(no_send_function(request.metadata.message_id))
                        )
                else:
                    graph_task = context.retrieve_graph_task()
                    self._check_attached(send_function, graph_task, request)
                if not dropped:
                    self._feed(context, send_function, request, first)
        finally:
            if overtaken is not None:
                overtaken.set_exception(RuntimeError(_OVERTAKEN))
        if dropped:
            raise no_send_function(request.metadata.message_id)
        return graph_task, first

    def _feed(
        self,
        context: DistAutogradContext,
        send_function: SendRpcBackward,
        request: PropagateGradientsReq,
        first: bool,
    ) -> None:
        """Give a send function its gradients. The engine's lock is held, so that those of a later pass
        come after them."""
        tracer = self._tracer
        if tracer.enabled:
            message_id = request.metadata.message_id
            tracer.emit(tracing.GRADIENTS_RECEIVED, context.context_id, message_id, first)
        send_function.set_grads(request.grads)
        send_function.fed_in = request.pass_id

    def _check_attached(
        self, send_function: SendRpcBackward, graph_task: GraphTask, request: PropagateGradientsReq
    ) -> None:
        if send_function not in graph_task.nodes_in_graph:
            raise no_send_function(request.metadata.message_id)

    def _run_part(
        self, context: DistAutogradContext, graph_task: GraphTask, send_function: SendRpcBackward
    ) -> Future[None]:
        """Run this worker's part of a pass, which ends when what it sent on has been answered."""
        accumulated = self.run_engine_and_accumulate_gradients(
            graph_task, send_function, increment_outstanding_tasks=False
        )
        result: Future[None] = Future(runtime=self._runtime, what="backward pass")

        def local_part_done(local: Future[None]) -> None:
            if local.error is not None:
                self.cleanup_backward_pass(context, graph_task, local.error)
                result.try_fail(local.error)
                return
            context.clear_and_wait_for_outstanding_rpcs_async(graph_task).add_callback(all_done)

        def all_done(rpcs: Future[None]) -> None:
            # The reply comes after the clean-up: who has it may start the next pass.
            self.cleanup_backward_pass(context, graph_task, rpcs.error)
            result.complete_like(rpcs)

        accumulated.add_callback(local_part_done)
        return result

    def _check_not_over(self, context: DistAutogradContext, pass_id: PassId) -> None:
        """Raises RuntimeError if this worker has seen ``pass_id``, or a later one, begin."""
        latest = context.latest_pass
        if pass_id in context.passes or (latest is not None and is_before(pass_id, latest)):
            # Whoever waits for these gradients may hear of this before what went wrong.
            cause = context.passes.get(pass_id)
            raise RuntimeError(
                f"The backward pass in autograd context {context.context_id} that these "
                f"gradients belong to is over on worker {self._worker.id}"
                + (f": {cause}" if cause is not None else "")
            )
        running = context.pass_id
        if running is not None and maker_of(running) == self._worker.id:
            raise RuntimeError(
                "Another backward pass is already running in autograd context "
                f"{context.context_id} on worker {self._worker.id}"
            )

    # -- both -----------------------------------------------------------------------------

    def compute_dependencies(
        self,
        context: DistAutogradContext,
        pass_id: PassId,
        graph_root: GraphRoot,
        retain_graph: bool,
    ) -> GraphTask:
        """Count, for each node, the edges that lead to it, and find what has to be run.

        Breadth first from the root and from all send functions of the context. Raises
        RuntimeError if the graph ends in anything but AccumulateGrad and recv functions.
        """
        sends = context.send_functions()
        send_functions = list(sends.values())
        roots = [graph_root, *send_functions]
        graph_task = GraphTask(
            self._runtime,
            context,
            pass_id=pass_id,
            keep_graph=retain_graph,
            graph_roots=roots,
            exit_on_error=True,
        )
        # One for each send function, since the pass has to wait for all of them.
        graph_task.outstanding.extend([None] * len(send_functions))
        devices = self._devices if self._devices.enabled else None

        dependencies = graph_task.dependencies
        inner: list[Node] = list(roots)  # grows while it is walked
        output_edges: list[Edge] = []
        recv_backward_edges: list[Edge] = []
        dead_ends = False
        for fn in inner:
            edges = fn.next_functions
            leads_on = False
            for edge in edges:
                following = edge[0]
                if following is None:
                    continue
                leads_on = True
                if following in dependencies:
                    dependencies[following] += 1
                    continue
                dependencies[following] = 1
                kind = KINDS[type(following)]
                if kind >= RECV:
                    # Not run by this pass but captured (AccumulateGrad), or run as a leaf.
                    output_edges.append(edge)
                    if kind == RECV:
                        recv_backward_edges.append(edge)
                else:
                    inner.append(following)
            if not leads_on and fn is not graph_root:
                if not edges:
                    raise RuntimeError(
                        f"{fn.name()} has no next functions but is neither AccumulateGrad nor "
                        "RecvRpcBackward"
                    )
                dead_ends = True
            if devices is not None and devices.uses(fn):
                graph_task.device_queue = devices.queue
                graph_task.cpu_ready_queue = devices.start()

        if devices is not None and any(devices.uses(node) for node, _ in output_edges):
            graph_task.device_queue = devices.queue
            graph_task.cpu_ready_queue = devices.start()
        graph_task.nodes_in_graph = {**dict.fromkeys(inner), **dict.fromkeys(dependencies)}
        if graph_task.device_queue is not None:
            graph_task.devices = self._devices
            graph_task.stash_current_streams()
        if self._tracer.enabled:
            graph_task.numbers = {node: i for i, node in enumerate((*roots, *dependencies))}
            graph_task.sends = sends
        if output_edges:
            self._find_needed(context, graph_task, output_edges, recv_backward_edges, dead_ends)
        graph_task.owner = CPU_DEVICE
        return graph_task

    def _find_needed(
        self,
        context: DistAutogradContext,
        graph_task: GraphTask,
        output_edges: list[Edge],
        recv_backward_edges: list[Edge],
        dead_ends: bool,
    ) -> None:
        """Mark what leads to an output, from all roots, and have gradients of leaves kept."""
        # Nodes that only a send function leads to are needed as well: hence one root over all.
        dummy_root = GraphRoot(tuple((root, 0) for root in graph_task.graph_roots))
        graph_task.init_to_execute(dummy_root, output_edges, dead_ends=dead_ends)
        exec_info = graph_task.exec_info
        numbers = graph_task.numbers
        for node, _ in output_edges:
            if KINDS[type(node)] == ACCUMULATE:
                hook = DistAccumulateGradCaptureHook(
                    node, context, graph_task, numbers.get(node, -1), self._tracer
                )
                for capture in exec_info[node].captures:
                    capture.hooks.append(hook)
        # A recv function ends the graph like a leaf, but it has to be run.
        for node, _ in recv_backward_edges:
            exec_info[node].needed = True

    def _begin(self, context: DistAutogradContext, graph_task: GraphTask) -> GraphTask:
        """Note that a pass runs. The engine's lock is held.

        Gives the pass that runs: another one if a send function was dropped meanwhile."""
        while not context.set_graph_task(graph_task):
            pass_id, graph_root = graph_task.pass_id, graph_task.graph_roots[0]
            assert isinstance(graph_root, GraphRoot)
            graph_task = self.compute_dependencies(
                context, pass_id, graph_root, graph_task.keep_graph
            )
        context.pass_id = context.latest_pass = pass_id = graph_task.pass_id
        context.passes[pass_id] = None
        self._initialized_context_ids[context.context_id] = None
        tracer = self._tracer
        if tracer.enabled:
            trace_beginning(tracer, graph_task)
            tracer.made(graph_task)
        if tracer.observer is not None:
            tracer.observer.gradients(self._worker.id, context.context_id, context.live_gradients())
        return graph_task

    def run_engine_and_accumulate_gradients(
        self,
        graph_task: GraphTask,
        graph_root: GraphRoot | SendRpcBackward,
        *,
        increment_outstanding_tasks: bool = True,
    ) -> Future[None]:
        """Start the pass at one of its roots. The future is complete when the local part is
        done; an error names this worker."""
        accumulated: Future[None] = Future(
            runtime=self._runtime,
            what=f"backward pass in context {graph_task.context.context_id}",
        )

        def graph_done(grads: Future[list[Tensor | None]]) -> None:
            error = grads.error
            if error is None:
                accumulated.mark_completed(None)
            else:
                text = str(error) or type(error).__name__
                accumulated.set_error(FutureError(f"Error on Node {self._worker.id}: {text}"))

        graph_task.future_result.add_callback(graph_done)
        self._launch(NodeTask(graph_task, graph_root, InputBuffer(0)), increment_outstanding_tasks)
        return accumulated

    def _launch(self, node_task: NodeTask, increment_outstanding_tasks: bool) -> None:
        run = self.execute_graph_task_until_ready_queue_empty
        if node_task.base is not None and node_task.base.profiler is not None:
            run = self._run_profiled
        self._runtime.spawn(
            run,
            node_task,
            increment_outstanding_tasks,
            name="backward",
            worker=self._worker,
        )

    def _run_profiled(self, node_task: NodeTask, increment_outstanding_tasks: bool) -> None:
        assert node_task.base is not None and node_task.base.profiler is not None
        with node_task.base.profiler.here():
            self.execute_graph_task_until_ready_queue_empty(node_task, increment_outstanding_tasks)

    def execute_graph_task_until_ready_queue_empty(
        self, node_task: NodeTask, increment_outstanding_tasks: bool
    ) -> None:
        """Run a node and all that become ready through it, in the order of torch.

        With a queue of its own, so that several tasks can run parts of one pass.
        """
        graph_task = node_task.base
        assert graph_task is not None
        queue = ReadyQueue()
        queue.push(node_task, increment_outstanding_tasks)
        del node_task  # it would keep gradients alive
        evaluate_function: Evaluate = self._engine.evaluate_function
        if graph_task.profiler is not None:
            evaluate_function = in_ranges(graph_task.profiler, evaluate_function)
        outstanding = graph_task.outstanding
        recording = torch.is_grad_enabled()
        graph_task.runners.append(None)
        torch._C._set_grad_enabled(False)
        try:
            with GraphTaskGuard(graph_task), self._streams_of(graph_task):
                while (task := queue.take()) is not None:
                    if not graph_task.has_error:
                        try:
                            evaluate_function(graph_task, task.fn, task.inputs, queue)
                        except Exception as error:
                            # The count stays up: a failed task is complete in any case.
                            graph_task.set_exception(error, task.fn)
                            break
                    outstanding.pop()
        finally:
            torch._C._set_grad_enabled(recording)
            graph_task.runners.pop()
        if graph_task.completed():
            graph_task.mark_as_completed_and_run_post_processing()
        elif graph_task.context.released and not graph_task.runners:
            graph_task.context.give_up_pass(graph_task)

    def _streams_of(self, graph_task: GraphTask) -> AbstractContextManager[object]:
        devices = graph_task.devices
        return _NO_STREAMS if devices is None else devices.on_caller_streams(graph_task)

    def cleanup_backward_pass(
        self,
        context: DistAutogradContext,
        graph_task: GraphTask,
        error: BaseException | None = None,
    ) -> None:
        """Forget a pass: the context is ready for another one. ``error``: what it died of."""
        with self._lock:
            if context.has_graph_task(graph_task):  # else a later pass has ended it
                self._end(context, graph_task, None if error is None else str(error))

    def _end(
        self, context: DistAutogradContext, graph_task: GraphTask, error: str | None = None
    ) -> None:
        """Take the running pass away from its context. The engine's lock is held."""
        context.passes[graph_task.pass_id] = error
        if error is not None:  # else each has handed on what it was given
            for root in graph_task.graph_roots:
                root.let_go()
        context.reset_graph_task()
        context.pass_id = None
        self._initialized_context_ids.pop(context.context_id, None)
        tracer = self._tracer
        if tracer.observer is not None:
            tracer.observer.pass_over(self._worker.id, context.context_id, graph_task.pass_id)
        if tracer.enabled:
            trace_end(tracer, graph_task, error)

    # -- looking --------------------------------------------------------------------------

    def num_backward_passes(self) -> int:
        return len(self._initialized_context_ids)

    def get_debug_info(self) -> dict[str, int]:
        return {
            "num_current_backward_passes": self.num_backward_passes(),
            "num_autograd_contexts": self._container.num_autograd_contexts(),
        }

    def shutdown(self) -> None:
        """Stop the tasks that serve devices, if any were started."""
        self._devices.shutdown()
