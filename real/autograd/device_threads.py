"""Tasks that run the nodes of one device each, and the way back to the CPU
(torch/csrc/autograd/engine.cpp: device threads; dist_engine.cpp: globalCpuThread).

A pass on CPU tensors alone never starts any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from squall.real.autograd.graph_task import GraphTask, GraphTaskGuard, NodeTask
from squall.real.autograd.node import Edge, Node
from squall.real.autograd.node_streams import forward_stream
from squall.real.autograd.ready_queue import SharedReadyQueue
from squall.real.streams import has_streams, on_streams, some_device_has_streams, streams_of

if TYPE_CHECKING:
    from squall.real.autograd.engine import Engine
    from squall.real.process import Process


class DeviceThreads:
    """Ready queues of a worker's devices, with a task at each, and the global CPU queue.

    A node belongs to the device of its inputs, and runs on the stream of its forward operation; what
    has none (leaves, what came from another worker) on the stream that was current for the device
    where the worker's part of the pass began.
    ``launch(node_task, increment)`` runs a node on a CPU task of its own.
    """

    def __init__(
        self, worker: Process, engine: Engine, launch: Callable[[NodeTask, bool], None]
    ) -> None:
        self._worker = worker
        self._engine = engine
        self._launch = launch
        self._queues: dict[torch.device, SharedReadyQueue] = {}
        #: continuations from a device to the CPU: a runner that came to its end cannot take them
        self.global_cpu_ready_queue: SharedReadyQueue | None = None
        #: whether nodes can be on a device at all
        self.enabled = some_device_has_streams()

    # -- what a node runs on ----------------------------------------------------------------

    def is_device(self, device: torch.device) -> bool:
        """Whether nodes of this device have a task of their own."""
        return has_streams(device)

    def stream_of(self, node: Node, device: torch.device, graph_task: GraphTask) -> Any:
        """The stream that a node on ``device`` runs on."""
        stream = forward_stream(device, node._sequence_nr())
        if stream is None:
            stream = graph_task.caller_current_streams[device]
        return stream

    def on_stream(
        self, device: torch.device, graph_task: GraphTask, node: Node
    ) -> AbstractContextManager[object]:
        """Where the work of a node on ``device`` is queued: it, and its other devices."""
        stream = self.stream_of(node, device, graph_task)
        graph_task.leaf_streams[stream] = None
        entered = ExitStack()
        entered.enter_context(on_streams(graph_task.caller_current_streams.values()))
        entered.enter_context(on_streams((stream,)))
        return entered

    def on_caller_streams(self, graph_task: GraphTask) -> AbstractContextManager[object]:
        """Where all else of a pass is queued."""
        return on_streams(graph_task.caller_current_streams.values())

    def hand_over(
        self, graph_task: GraphTask, edges: Iterable[Edge], grads: Iterable[Tensor | None]
    ) -> None:
        """Let the streams of the nodes that gradients go to wait for them, and keep the memory for
        as long as they use it (torch/csrc/autograd/input_buffer.cpp, InputBuffer::add)."""
        for (following, _), grad in zip(edges, grads, strict=True):
            if following is None or grad is None or not self.is_device(grad.device):
                continue
            produced = streams_of(grad.device).current_stream(grad.device)
            consumer = self.stream_of(following, grad.device, graph_task)
            if consumer != produced:
                consumer.wait_event(produced.record_event())
                grad.record_stream(consumer)

    def on_consumer_stream(
        self, node: Node, grad: Tensor | None, graph_task: GraphTask
    ) -> AbstractContextManager[object]:
        """Where gradients that meet at a node are added."""
        if grad is None or not self.is_device(grad.device):
            return on_streams(())
        return on_streams((self.stream_of(node, grad.device, graph_task),))

    def device_of(self, node: Node) -> torch.device | None:
        """The device that a node runs on; None for the CPU."""
        for device in _input_devices(node):
            if self.is_device(device):
                return device
        return None

    def uses(self, node: Node) -> bool:
        return self.device_of(node) is not None

    def queue(self, node: Node) -> SharedReadyQueue | None:
        """The ready queue of a node's device, with a task that serves it; None for the CPU."""
        device = self.device_of(node)
        if device is None:
            return None
        queue = self._queues.get(device)
        if queue is None:
            new = SharedReadyQueue(self._worker.runtime, f"work for {device}")
            queue = self._queues.setdefault(device, new)
            if queue is new:  # no other thread was faster
                self._spawn(self._device_thread, device, queue, name=f"backward on {device}")
        return queue

    # -- the tasks --------------------------------------------------------------------------

    def start(self) -> SharedReadyQueue:
        """Have continuations served; the queue for them."""
        queue = self.global_cpu_ready_queue
        if queue is None:
            queue = SharedReadyQueue(self._worker.runtime, "continuations on the CPU")
            self.global_cpu_ready_queue = queue
            self._spawn(self._global_cpu_thread, queue, name="global CPU thread")
        return queue

    def _spawn(self, fn: Callable[..., None], *args: object, name: str) -> None:
        self._worker.runtime.spawn(fn, *args, name=name, worker=self._worker)

    def _global_cpu_thread(self, queue: SharedReadyQueue) -> None:
        """Give each continuation a task: one that blocks must not hold back the others."""
        while not (task := queue.pop()).is_shutdown_task:
            self._launch(task, False)
            del task  # it would keep the pass alive while nothing comes

    def _device_thread(self, device: torch.device, queue: SharedReadyQueue) -> None:
        while not (task := queue.pop()).is_shutdown_task:
            self._run(device, task)
            del task

    def _run(self, device: torch.device, task: NodeTask) -> None:
        graph_task = task.base
        assert graph_task is not None
        assert graph_task.cpu_ready_queue is not None
        if not graph_task.has_error:
            try:
                with (
                    torch.no_grad(),
                    GraphTaskGuard(graph_task),
                    self.on_stream(device, graph_task, task.fn),
                ):
                    self._engine.evaluate_function(
                        graph_task, task.fn, task.inputs, graph_task.cpu_ready_queue
                    )
            except Exception as error:
                graph_task.set_exception(error, task.fn)
        graph_task.outstanding.pop()
        if graph_task.completed():
            graph_task.mark_as_completed_and_run_post_processing()

    def wait_for_grads(self, graph_task: GraphTask, grads: Iterable[Tensor]) -> None:
        """Let the streams of the pass wait for gradients that arrived on another stream."""
        for grad in grads:
            if self.is_device(grad.device):
                arrived = streams_of(grad.device).current_stream(grad.device)
                stream = graph_task.caller_current_streams[grad.device]
                if arrived != stream:
                    stream.wait_event(arrived.record_event())
                    grad.record_stream(stream)

    def shutdown(self) -> None:
        """Stop all tasks once they have done what is queued before the end."""
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            queue.push_shutdown_task()
        if self.global_cpu_ready_queue is not None:
            self.global_cpu_ready_queue.push_shutdown_task()
            self.global_cpu_ready_queue = None


def _input_devices(node: Node) -> list[torch.device]:
    metadata = getattr(node, "_input_metadata", None)
    if metadata is not None:
        return [entry.device for entry in metadata]
    return [device for _, _, device in getattr(node, "input_metadata", ())]
