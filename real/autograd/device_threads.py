"""Tasks that run the nodes of one device each, and the way back to the CPU
(torch/csrc/autograd/engine.cpp: device threads; dist_engine.cpp: globalCpuThread).

A pass on CPU tensors alone never starts any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from squall.real.autograd.graph_task import GraphTask, GraphTaskGuard, NodeTask
from squall.real.autograd.node import Node
from squall.real.autograd.ready_queue import SharedReadyQueue

if TYPE_CHECKING:
    from squall.real.autograd.engine import Engine
    from squall.real.process import Process


class DeviceThreads:
    """Ready queues of a worker's devices, with a task at each, and the global CPU queue.

    A node belongs to the device of its inputs. Its gradients are computed on the stream that
    was current for the device where the pass began, as is all other work of the pass.
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
        self.enabled = torch.cuda.is_available()

    # -- what a node runs on ----------------------------------------------------------------

    def is_device(self, device: torch.device) -> bool:
        """Whether nodes of this device have a task of their own."""
        return device.type == "cuda"

    def on_stream(
        self, device: torch.device, graph_task: GraphTask
    ) -> AbstractContextManager[object]:
        """Where the work of a node on ``device`` is queued."""
        stream = graph_task.caller_current_streams[device.index or 0]
        graph_task.leaf_streams[stream] = None
        return torch.cuda.stream(stream)

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

    def _device_thread(self, device: torch.device, queue: SharedReadyQueue) -> None:
        while not (task := queue.pop()).is_shutdown_task:
            self._run(device, task)

    def _run(self, device: torch.device, task: NodeTask) -> None:
        graph_task = task.base
        assert graph_task is not None
        assert graph_task.cpu_ready_queue is not None
        if not graph_task.has_error:
            try:
                with (
                    torch.no_grad(),
                    GraphTaskGuard(graph_task),
                    self.on_stream(device, graph_task),
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
            if grad.is_cuda:
                arrived = torch.cuda.current_stream(grad.device)
                stream = graph_task.caller_current_streams[grad.device.index]
                if arrived != stream:
                    stream.wait_event(arrived.record_event())

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
