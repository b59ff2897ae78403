"""What happens to a gradient that reaches a leaf in a distributed pass
(torch/csrc/distributed/autograd/engine/dist_engine.cpp: DistAccumulateGradCaptureHook)."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

from squall.real import tracing
from squall.real.autograd.context import DistAutogradContext, ThreadLocalDistAutogradContext
from squall.real.autograd.hooks import call_post_hooks, call_pre_hooks
from squall.real.autograd.node_abi import MEMORY, node_abi

if TYPE_CHECKING:
    from torch import Tensor

    from squall.real.autograd.graph_task import GraphTask
    from squall.real.autograd.node import Node


class DistAccumulateGradCaptureHook:
    """Adds a captured gradient to the context, between the hooks of its AccumulateGrad node.

    A hook may outlast its pass; then nothing is added, and no further hook is called.
    """

    __slots__ = (
        "_accumulate_grad",
        "_context",
        "_graph_task",
        "_number",
        "_pointer",
        "_tracer",
        "_variable",
    )

    def __init__(
        self,
        accumulate_grad: Node,
        context: DistAutogradContext,
        graph_task: GraphTask,
        number: int,
        tracer: tracing.Tracer,
    ) -> None:
        self._accumulate_grad = accumulate_grad
        self._pointer = node_abi().pointer(accumulate_grad)
        self._variable = accumulate_grad.variable
        self._context = context
        # Weak: the pass keeps its hooks, and would keep itself, its nodes and what they have saved.
        self._graph_task = weakref.ref(graph_task)
        self._number = number
        self._tracer = tracer

    def __call__(self, input_grads: list[Tensor | None]) -> Tensor | None:
        _, *hooks = node_abi().read_node(MEMORY, self._pointer)
        if not any(hooks):
            self._accumulate(input_grads)
            return input_grads[0]
        with ThreadLocalDistAutogradContext(self._context):
            # Called even without a gradient, as another entry may bring it.
            input_grads[:] = call_pre_hooks(self._pointer, input_grads)
            torch._C._set_grad_enabled(False)  # whatever the user's code left behind
            if self._accumulate(input_grads):
                call_post_hooks(self._pointer, [], input_grads)
                torch._C._set_grad_enabled(False)
        return input_grads[0]

    def _accumulate(self, input_grads: list[Tensor | None]) -> bool:
        """Add what is there. Says whether the pass goes on."""
        graph_task = self._graph_task()
        if graph_task is None:
            return False
        if input_grads[0] is None:
            return not graph_task.has_error
        if not self._context.accumulate_grad(graph_task, self._variable, input_grads):
            return False
        if self._tracer.enabled:
            self._tracer.emit(tracing.GRADIENT_ACCUMULATED, self._context.context_id, self._number)
        return True
