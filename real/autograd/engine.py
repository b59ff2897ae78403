"""The local engine: evaluates one node of a pass after the other.

Follows torch/csrc/autograd/engine.cpp: ``evaluate_function``, ``call_function``. Nodes of torch
are called one by one from Python; what torch's own engine does around such a call (hooks,
checks, accumulation, release of saved variables) is done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from squall.real import tracing
from squall.real.autograd.functions import GraphRoot, SendRpcBackward
from squall.real.autograd.graph_task import NEEDED, ExecInfo, GraphTask, NodeTask
from squall.real.autograd.hooks import (
    call_leaf_hooks,
    call_post_hooks,
    call_pre_hooks,
    call_tensor_pre_hooks,
)
from squall.real.autograd.input_abi import input_abi
from squall.real.autograd.input_buffer import InputBuffer
from squall.real.autograd.node import Edge, Node
from squall.real.autograd.node_abi import MEMORY, node_abi, read_word
from squall.real.autograd.python_node import apply_python_node
from squall.real.autograd.recv_function import RecvNode
from squall.real.autograd.validate import validate_outputs

if TYPE_CHECKING:
    from squall.real.autograd.graph_task import NodeQueue
    from squall.real.process import Process

#: how a node is called, by its type; the last two are leaves of a worker's graph
CPP, PYTHON, OURS, RECV, ACCUMULATE = range(5)


class _Kinds(dict[type, int]):
    """Type of a node -> how it is called."""

    def __missing__(self, node_type: type) -> int:
        python = issubclass(node_type, torch._C._FunctionBase)
        kind = self[node_type] = PYTHON if python else CPP
        return kind


def _accumulate_grad_type() -> type:
    with torch.enable_grad():
        edge: Any = torch.zeros(1, requires_grad=True).view(1).grad_fn
    return type(edge.next_functions[0][0])


AccumulateGrad = _accumulate_grad_type()
KINDS = _Kinds({RecvNode: RECV, GraphRoot: OURS, SendRpcBackward: OURS, AccumulateGrad: ACCUMULATE})


class Engine:
    """Evaluates nodes for one worker. Holds what the worker's passes share."""

    def __init__(self, worker: Process) -> None:
        self._tracer = worker.tracer
        self._worker = worker
        self._interceptor = worker.interceptor
        # Tried out here: within a pass that is profiled, its operators would be part of the profile.
        input_abi()
        abi = node_abi()
        self._read_node = abi.read_node
        self._release = abi.release
        self._cpp_offset = abi.cpp_offset
        self._python_offset = abi.python_offset
        self._abi = abi

    def evaluate_function(
        self,
        graph_task: GraphTask,
        func: Node,
        inputs: InputBuffer,
        cpu_ready_queue: NodeQueue,
    ) -> None:
        """Run ``func``, or capture what came for it, and pass its gradients on.

        Nodes that have become ready go to ``cpu_ready_queue`` or to the queue of their device.
        The pass may be over when user code returns; then what came of it goes nowhere. Raises what
        the node, a hook or a check raises.
        """
        exec_info = graph_task.exec_info
        if exec_info:
            info = exec_info[func]
            if info is not NEEDED:
                self._capture(graph_task, func, info, inputs)
                if not info.needed:
                    if info.captures and not graph_task.has_error:
                        self._trace(graph_task, func)
                    return
        if self._interceptor is not None:
            self._interceptor.at(self._worker, "node")
        edges = func.next_functions
        outputs, sizes = self.call_function(graph_task, func, edges, inputs)
        if graph_task.has_error:
            return
        tracer = self._tracer
        if tracer.enabled:
            number = graph_task.numbers.get(func, -1)
            tracer.emit(tracing.NODE_EXECUTED, graph_task.context.context_id, number)
        if not outputs:
            return
        dependencies = graph_task.dependencies
        not_ready = graph_task.not_ready
        device_queue = graph_task.device_queue
        devices = graph_task.devices
        if devices is not None:
            devices.hand_over(graph_task, edges, outputs)
        i = -1
        with graph_task.lock:
            for following, input_nr in edges:
                i += 1
                if following is None:
                    continue
                left = dependencies.get(following)
                if left is None:
                    raise RuntimeError(f"dependency not found for {following.name()}")
                if left == 1:
                    del dependencies[following]
                else:
                    dependencies[following] = left - 1
                buffer = not_ready.get(following)
                if buffer is None:
                    # Functions that are not to be executed are passed over.
                    if exec_info:
                        next_info = exec_info.get(following)
                        if next_info is None or not (next_info.needed or next_info.captures):
                            continue
                    buffer = InputBuffer(sizes[i] or len(following._input_metadata))
                    buffer.buffer[input_nr] = outputs[i]
                    if left != 1:
                        not_ready[following] = buffer
                        continue
                else:
                    if devices is None:
                        buffer.add(input_nr, outputs[i])
                    else:
                        with devices.on_consumer_stream(following, outputs[i], graph_task):
                            buffer.add(index=input_nr, grad=outputs[i])
                    if left != 1:
                        continue
                    del not_ready[following]
                queue = cpu_ready_queue
                if device_queue is not None:
                    queue = device_queue(following) or cpu_ready_queue
                queue.push(NodeTask(graph_task, following, buffer))

    def _trace(self, graph_task: GraphTask, func: Node) -> None:
        tracer = self._tracer
        if tracer.enabled:
            number = graph_task.numbers.get(func, -1)
            tracer.emit(tracing.NODE_EXECUTED, graph_task.context.context_id, number)

    def _capture(
        self, graph_task: GraphTask, func: Node, info: ExecInfo, inputs: InputBuffer
    ) -> None:
        """Take the inputs of ``func`` as outputs of the pass."""
        if not info.captures:  # a root that leads to nothing which is wanted
            return
        grads = inputs.buffer
        if not info.needed:  # else the hooks are called as the function is
            if type(func) is AccumulateGrad:
                if self._interceptor is not None and cast(Any, func).variable._backward_hooks:
                    self._interceptor.at(self._worker, "hook")
                call_leaf_hooks(cast(Any, func).variable, grads)
            else:
                grads = call_tensor_pre_hooks(func, self._abi.pointer(func), grads)
            torch._C._set_grad_enabled(False)  # whatever the user's code left behind
        for capture in info.captures:
            captured = grads[capture.input_idx]
            if capture.hooks:
                # A hook may take the gradient over, so nothing here may refer to it.
                captured = None
                for hook in capture.hooks:
                    captured = hook(grads)
            with graph_task.lock:
                graph_task.captured_vars[capture.output_idx] = captured

    def call_function(
        self,
        graph_task: GraphTask,
        func: Node,
        next_edges: tuple[Edge, ...],
        input_buffer: InputBuffer,
    ) -> tuple[list[Tensor | None], list[int]]:
        """Run a node with its hooks, check what it returns, and free what it saved.

        Returns the gradients for ``next_edges``, which are the node's, none for a node that ends
        there, and how many inputs each of the nodes has that they go to (see ``validate_outputs``).
        """
        inputs = input_buffer.buffer
        outputs: list[Tensor | None]
        kind = KINDS[type(func)]
        if kind == CPP:
            pointer = read_word(MEMORY, id(func) + self._cpp_offset)[0]
        elif kind == OURS:
            outputs = func.apply()
            return outputs, validate_outputs(next_edges, outputs, func)
        else:
            pointer = read_word(MEMORY, id(func) + self._python_offset)[0]

        vtable, first, second, third, fourth = self._read_node(MEMORY, pointer)
        hooked = first or second or third or fourth
        if hooked:
            if self._interceptor is not None:
                self._interceptor.at(self._worker, "hook")
            inputs = call_tensor_pre_hooks(func, pointer, inputs)
            inputs = call_pre_hooks(pointer, inputs)

        if kind == CPP:
            returned = func(*inputs)
            outputs = list(returned) if type(returned) is tuple else [returned]
        elif kind == RECV:
            func.recv.apply(func, inputs, graph_task)
            outputs = []
        else:
            outputs = apply_python_node(func, inputs)
            torch._C._set_grad_enabled(False)  # whatever the user's code left behind

        sizes = validate_outputs(next_edges, outputs, func) if kind != RECV else []
        if hooked:
            outputs = call_post_hooks(pointer, outputs, inputs)
            torch._C._set_grad_enabled(False)
        if not graph_task.keep_graph:
            self._release[vtable](pointer)
        return outputs, sizes
