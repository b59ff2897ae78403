"""Where gradients leave the graph of a worker: the recv functions, which are nodes of torch's own.

torch/csrc/distributed/autograd/functions/recvrpc_backward.h. Where they enter that of the next:
:mod:`squall.real.autograd.functions`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionMeta

from squall.real.autograd.context import context_is_gone
from squall.real.autograd.functions import NAMESPACE
from squall.real.autograd.python_node import zeros_like_input

if TYPE_CHECKING:
    from squall.real.autograd.context import DistAutogradContext
    from squall.real.autograd.graph_task import GraphTask
    from squall.real.autograd.messages import AutogradMetadata
    from squall.real.ids import WorkerId
    from squall.real.rpc.options import DeviceMap
    from squall.real.tracing import Observer


class RecvRpcBackward:
    """What a recv node knows: where the tensors came from, and so where gradients go.

    The node itself is a real node of torch's graph, of type :data:`RecvNode`; this is its
    attribute ``recv``. The engine runs :meth:`apply` and never follows the node's edges.
    """

    __slots__ = ("_context", "context_id", "device_map", "from_worker_id", "metadata")

    def __init__(
        self,
        metadata: AutogradMetadata,
        context: DistAutogradContext,
        from_worker_id: WorkerId,
        device_map: DeviceMap | None = None,
    ) -> None:
        """``device_map``: the way back of what came on each device; None: all came on the CPU."""
        self.metadata = metadata
        self.device_map = device_map
        self._context = weakref.ref(context)
        self.from_worker_id = from_worker_id

    def apply(self, node: Any, grads: Sequence[Tensor | None], graph_task: GraphTask) -> None:
        """Send the gradients of pass ``graph_task`` to where the tensors came from. Does not wait.

        Missing ones are sent as zeros. Raises RuntimeError if the context is gone.
        """
        context = self._context()
        if context is None:
            raise context_is_gone()
        defined = [
            zeros_like_input(metadata) if grad is None else grad
            for grad, metadata in zip(grads, node._input_metadata, strict=True)
        ]
        context.propagate_gradients(
            self.from_worker_id, self.metadata.message_id, defined, graph_task, self.device_map
        )


class _Received:
    """Tensors on their way into a graph; autograd does not look inside."""

    __slots__ = ("observer", "recv", "tensors")

    def __init__(
        self, recv: RecvRpcBackward, tensors: Sequence[Tensor], observer: Observer | None
    ) -> None:
        self.recv = recv
        self.tensors = tensors
        self.observer = observer


def _forward(ctx: Any, received: _Received, *anchors: Tensor) -> tuple[Tensor, ...]:
    ctx.recv = received.recv
    ctx.anchored = len(anchors) == len(received.tensors) and anchors[0] is not _ANCHOR
    # An observer leads to tensors of the graph, and no collector sees how that leads back to it.
    ctx.observer = None if received.observer is None else weakref.ref(received.observer)
    ctx.set_materialize_grads(False)
    return tuple(received.tensors)


def _backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    # Only plain torch.autograd comes here; the engine calls RecvRpcBackward.apply.
    observer: Observer | None = ctx.observer and ctx.observer()
    if observer is None or not observer.walking:
        raise RuntimeError(
            "this graph came from another worker: its gradients are computed by "
            "torch.distributed.autograd.backward, not by torch.autograd"
        )
    return (None, *grads) if ctx.anchored else (None, None)


# A node's name is that of its type, and users look for torch's.
_RecvRpc: Any = cast(Any, FunctionMeta)(
    f"{NAMESPACE}::RecvRpc",
    (Function,),
    {"forward": staticmethod(_forward), "backward": staticmethod(_backward)},
)


class _CppFunction(type):
    """Type of the recv nodes' type. torch's recv nodes have no Python type of their own, and
    whatever prints a tensor goes by that."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return "CppFunction"


_RecvRpc._backward_cls = _CppFunction(
    f"{NAMESPACE}::RecvRpcBackward", (_RecvRpc._backward_cls,), {"_forward_cls": _RecvRpc}
)
# Function.apply first asks for functorch transforms, which no message goes through.
_apply: Any = super(Function, _RecvRpc).apply
#: the type of recv nodes
RecvNode: type = _RecvRpc._backward_cls
#: a graph needs some input that requires grad; used when no observer names better ones
_ANCHOR = torch.zeros((), requires_grad=True)


def set_history(
    tensors: Sequence[Tensor],
    recv: RecvRpcBackward,
    anchors: Sequence[Tensor],
    observer: Observer | None = None,
) -> Any:
    """Make received tensors, all requiring grad, outputs of one new recv node, and return it.

    The tensors are changed in place: they already sit in unpickled objects. ``anchors``: what
    plain torch takes for the node's inputs, one for each tensor, or none; only ``observer``
    may then walk over it.
    """
    for tensor in tensors:
        tensor.requires_grad_(False)
    recording = torch.is_grad_enabled()
    torch._C._set_grad_enabled(True)
    try:
        _apply(_Received(recv, tensors, observer), *(anchors or (_ANCHOR,)))
    finally:
        torch._C._set_grad_enabled(recording)
    return tensors[0].grad_fn
