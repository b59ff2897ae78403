"""Where gradients enter the graph of a worker: the send functions, and the root of a pass.

torch/csrc/distributed/autograd/functions/sendrpc_backward.h,
torch/csrc/autograd/functions/basic_ops.h (GraphRoot). Where they leave it:
:mod:`squall.real.autograd.recv_function`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

if TYPE_CHECKING:
    from squall.real.autograd.node import Edge
    from squall.real.ids import PassId, WorkerId

NAMESPACE = "torch::distributed::autograd"


class GraphRoot:
    """Where a pass starts: hands ``grads`` to ``next_functions``."""

    __slots__ = ("_grads", "_kept", "next_functions")

    def __init__(
        self,
        next_functions: tuple[Edge, ...] = (),
        grads: Sequence[Tensor] = (),
        roots: Sequence[Tensor] = (),
    ) -> None:
        """``roots`` are kept, and with them their nodes: see :func:`gradient_edges`."""
        self.next_functions = next_functions
        self._grads = list(grads)
        self._kept = tuple(roots)

    def name(self) -> str:
        return "torch::autograd::GraphRoot"

    def apply(self) -> list[Tensor | None]:
        return list(self._grads)

    def let_go(self) -> None:
        """Nothing to do: it goes with its pass."""

    def _sequence_nr(self) -> int:
        return 1 << 62


def gradient_edge(tensor: Tensor) -> Edge:
    """Where a gradient of ``tensor``, which requires grad, goes: its node or that of the leaf.

    Also for a sparse leaf, of which ``torch.autograd.graph.get_gradient_edge`` knows nothing.
    """
    # A view is not asked for its grad_fn, nor whether it is a leaf: that takes a lock, and a thread
    # that uses a leaf may hold it while it waits for the interpreter. Neither goes on (torch 2.13).
    if not tensor._is_view():
        node: Any = tensor.grad_fn
        if node is not None:
            return node, tensor.output_nr
    edge: Edge = _used(tensor).next_functions[0]
    return edge


def gradient_edges(tensors: Sequence[Tensor]) -> tuple[tuple[Edge, ...], tuple[object, ...]]:
    """The edges of several tensors, and what to keep for as long as they are used.

    Up to torch 2.11 the Python object of a custom ``autograd.Function`` does not keep its node, as
    ``torch.autograd.graph.get_gradient_edge`` says: a node above it does.
    """
    edges = tuple(map(gradient_edge, tensors))
    if _FUNCTIONS_KEEP_THEIR_NODES:
        return edges, ()
    kept = [
        tensor
        for tensor, (node, _) in zip(tensors, edges, strict=True)
        if isinstance(node, torch._C._FunctionBase)
    ]
    return edges, tuple(map(_used, kept))


def _used(tensor: Tensor) -> Any:
    """A node above that of ``tensor``."""
    recording = torch.is_grad_enabled()
    torch._C._set_grad_enabled(True)
    try:
        used = tensor.view_as(tensor) if tensor.layout == torch.strided else tensor.clone()
    finally:
        torch._C._set_grad_enabled(recording)
    return used.grad_fn


class _Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.clone()


def _functions_keep_their_nodes() -> bool:
    with torch.enable_grad():
        node = cast(Any, _Identity).apply(torch.zeros(1, requires_grad=True)).grad_fn
    try:
        return node.next_functions is not None
    except RuntimeError:
        return False


# Found out once and for all here: a profile would see how it is found out.
_FUNCTIONS_KEEP_THEIR_NODES = _functions_keep_their_nodes()


class SendRpcBackward:
    """Stands in a graph for the tensors that were sent to another worker.

    Its inputs come over the network; :meth:`apply` hands them on to where the tensors came from.
    """

    __slots__ = (
        "__weakref__",
        "_grads",
        "_kept",
        "fed_in",
        "input_metadata",
        "next_functions",
        "to",
    )

    def __init__(self, tensors: Sequence[Tensor], to: WorkerId) -> None:
        #: the worker that they went to, and the last pass in which it sent gradients for them
        self.to = to
        self.fed_in: PassId | None = None
        self.next_functions, self._kept = gradient_edges(tensors)
        self.input_metadata = tuple((t.shape, t.dtype, t.device) for t in tensors)
        self._grads: list[Tensor] = []

    def name(self) -> str:
        return f"{NAMESPACE}::SendRpcBackward"

    def set_grads(self, grads: Sequence[Tensor]) -> None:
        self._grads = list(grads)

    def get_grads(self) -> list[Tensor]:
        return self._grads

    def let_go(self) -> None:
        """Forget gradients that a pass which has failed did not get to: the next one brings its own."""
        self._grads = []

    def apply(self) -> list[Tensor | None]:
        """The gradients that arrived, which are moved out: they serve one run."""
        grads: Any = self._grads
        self._grads = []
        return grads  # type: ignore[no-any-return]

    def _sequence_nr(self) -> int:
        return 1 << 62
