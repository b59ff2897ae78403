"""The autograd functions that join the graphs of two workers, and the root of a pass.

torch/csrc/distributed/autograd/functions/{send,recv}rpc_backward.h,
torch/csrc/autograd/functions/basic_ops.h (GraphRoot).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionMeta

from squall.real.autograd.python_node import zeros_like_input

if TYPE_CHECKING:
    from squall.real.autograd.context import DistAutogradContext
    from squall.real.autograd.graph_task import Edge
    from squall.real.autograd.messages import AutogradMetadata
    from squall.real.ids import WorkerId
    from squall.real.tracing import Observer

_NAMESPACE = "torch::distributed::autograd"


class GraphRoot:
    """Where a pass starts: hands ``grads`` to ``next_functions``."""

    __slots__ = ("_grads", "next_functions")

    def __init__(self, next_functions: tuple[Edge, ...] = (), grads: Sequence[Tensor] = ()) -> None:
        self.next_functions = next_functions
        self._grads = list(grads)

    def name(self) -> str:
        return "torch::autograd::GraphRoot"

    def apply(self) -> list[Tensor | None]:
        return list(self._grads)

    def _sequence_nr(self) -> int:
        return 1 << 62


def gradient_edge(tensor: Tensor) -> Edge:
    """Where a gradient of ``tensor``, which requires grad, goes: its node or that of the leaf.

    Also for a sparse leaf, of which ``torch.autograd.graph.get_gradient_edge`` knows nothing.
    """
    node: Any = tensor.grad_fn
    if node is not None:
        return node, tensor.output_nr
    recording = torch.is_grad_enabled()
    torch._C._set_grad_enabled(True)
    try:
        used = tensor.view_as(tensor) if tensor.layout == torch.strided else tensor.clone()
    finally:
        torch._C._set_grad_enabled(recording)
    above: Any = used.grad_fn
    return above.next_functions[0][0], 0


class SendRpcBackward:
    """Stands in a graph for the tensors that were sent to another worker.

    Its inputs come over the network; :meth:`apply` hands them on to where the tensors came from.
    """

    __slots__ = ("__weakref__", "_grads", "input_metadata", "next_functions")

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.next_functions: tuple[Edge, ...] = tuple(map(gradient_edge, tensors))
        self.input_metadata = tuple((t.shape, t.dtype, t.device) for t in tensors)
        self._grads: list[Tensor] = []

    def name(self) -> str:
        return f"{_NAMESPACE}::SendRpcBackward"

    def set_grads(self, grads: Sequence[Tensor]) -> None:
        self._grads = list(grads)

    def get_grads(self) -> list[Tensor]:
        return self._grads

    def apply(self) -> list[Tensor | None]:
        """The gradients that arrived, which are moved out: they serve one run."""
        grads: Any = self._grads
        self._grads = []
        return grads  # type: ignore[no-any-return]

    def _sequence_nr(self) -> int:
        return 1 << 62


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
        device_map: dict[str, str],
    ) -> None:
        self.metadata = metadata
        self._context = weakref.ref(context)
        self.from_worker_id = from_worker_id
        self.device_map = device_map

    def apply(self, node: Any, grads: Sequence[Tensor | None], retain_graph: bool) -> None:
        """Send the gradients to where the tensors came from. Does not wait.

        Missing ones are sent as zeros. Raises RuntimeError if the context is gone.
        """
        context = self._context()
        if context is None or context.released:
            raise RuntimeError(
                "Autograd context no longer valid! This usually means the autograd context was "
                "cleaned up by a different thread due to an error before RecvRpcBackward had a "
                "chance to run"
            )
        defined = [
            zeros_like_input(metadata) if grad is None else grad
            for grad, metadata in zip(grads, node._input_metadata, strict=True)
        ]
        context.propagate_gradients(
            self.from_worker_id, self.metadata.message_id, defined, retain_graph, self.device_map
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
    ctx.observer = received.observer
    ctx.set_materialize_grads(False)
    return tuple(received.tensors)


def _backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    # Only plain torch.autograd comes here; the engine calls RecvRpcBackward.apply.
    observer: Observer | None = ctx.observer
    if observer is None or not observer.walking:
        raise RuntimeError(
            "this graph came from another worker: its gradients are computed by "
            "torch.distributed.autograd.backward, not by torch.autograd"
        )
    return (None, *grads) if ctx.anchored else (None, None)


# A node's name is that of its type, and users look for torch's.
_RecvRpc: Any = cast(Any, FunctionMeta)(
    f"{_NAMESPACE}::RecvRpc",
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
    f"{_NAMESPACE}::RecvRpcBackward", (_RecvRpc._backward_cls,), {"_forward_cls": _RecvRpc}
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
