"""The joint autograd graph of all workers, and one backward pass of plain torch over it.

All simulated workers live in one process. If the recv function of each message names what was
sent as its inputs, the graphs of all workers are one graph, which ``torch.autograd`` can walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge

#: how torch names the node at the receiving end of a message
RECV_NAME = "torch::distributed::autograd::RecvRpcBackward"
ACCUMULATE_NAME = "torch::autograd::AccumulateGrad"

#: an autograd node: anything with ``next_functions`` and ``name()``
Node = Any
RunsUserCode = Callable[[Node], bool]


class Anchor(torch.autograd.Function):
    """The place of a sent tensor in the graph, without its data.

    Made when the tensor is sent: an in-place operation gives the tensor a new ``grad_fn``
    afterwards, and the message left before that. A gradient that the recv function does not
    get arrives as zeros, as it does over the network.
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return torch.empty_strided(
            tensor.shape, (0,) * tensor.dim(), dtype=tensor.dtype, device=tensor.device
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def anchor(tensor: Tensor) -> Tensor:
    """A tensor of the same shape and dtype through which gradients reach ``tensor``."""
    with torch.enable_grad():
        anchored: Tensor = Anchor.apply(tensor)  # type: ignore[no-untyped-call]
    return anchored


class JointGraph(NamedTuple):
    """What is reachable from some roots, over all workers, in breadth-first order."""

    leaves: list[Tensor]
    #: the AccumulateGrad node of each leaf
    leaf_nodes: list[Node]
    #: why a walk over the graph would run code of the user's, or None
    user_code: str | None


def walk(roots: Iterable[Tensor], *, runs_user_code: RunsUserCode | None = None) -> JointGraph:
    """Find the leaves under ``roots``, and whether anything there is the user's code.

    ``runs_user_code(node)`` is asked about nodes of torch's own kinds: hooks registered on them
    are not visible from Python.
    """
    seen: dict[Node, None] = {}
    for root in roots:
        if root.requires_grad:
            seen[torch.autograd.graph.get_gradient_edge(root).node] = None
    leaves: list[Tensor] = []
    leaf_nodes: list[Node] = []
    user_code: str | None = None
    queue = list(seen)
    for node in queue:  # grows while it is walked
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen[following] = None
                queue.append(following)
        variable = getattr(node, "variable", None)
        if variable is not None and node.name() == ACCUMULATE_NAME:
            leaves.append(variable)
            leaf_nodes.append(node)
            if user_code is None and variable._backward_hooks:
                user_code = f"a hook on a leaf of shape {list(variable.shape)}"
        if user_code is None:
            user_code = _user_code(node, runs_user_code)
    return JointGraph(leaves, leaf_nodes, user_code)


def _user_code(node: Node, runs_user_code: RunsUserCode | None) -> str | None:
    if issubclass(type(node), BackwardCFunction):
        if node._forward_cls is Anchor:
            return None
        if node.name() != RECV_NAME:
            return f"a custom function, {node.name()}"
    if runs_user_code is not None and runs_user_code(node):
        return f"a hook on {node.name()}"
    return None


def leaves_of(roots: Iterable[Tensor]) -> list[Tensor]:
    """The leaves that gradients of ``roots`` reach, in breadth-first order."""
    return walk(roots).leaves


def reference_gradients(roots: Sequence[Tensor], leaves: Sequence[Tensor]) -> list[Tensor | None]:
    """The gradient of the sum of ``roots`` in each leaf; None where nothing reaches it.

    Computed by ``torch.autograd.grad``; the graph is kept. Raises what torch raises.
    """
    return _gradients(roots, [GradientEdge(_leaf_node(leaf), 0) for leaf in leaves])


def node_gradients(roots: Sequence[Tensor], leaf_nodes: Sequence[Node]) -> list[Tensor | None]:
    """As :func:`reference_gradients`, for leaves given by their AccumulateGrad nodes."""
    return _gradients(roots, [GradientEdge(node, 0) for node in leaf_nodes])


def _gradients(roots: Sequence[Tensor], edges: list[GradientEdge]) -> list[Tensor | None]:
    if not edges:
        return []
    return list(
        torch.autograd.grad(
            list(roots),
            edges,
            _ones(roots),
            retain_graph=True,
            allow_unused=True,
        )
    )


def rehearsed_gradients(roots: Sequence[Tensor], leaves: Sequence[Tensor]) -> list[Tensor | None]:
    """As :func:`accumulated_gradients`, and afterwards the leaves are as they were before."""
    grads = [leaf.grad for leaf in leaves]
    hooks = [dict(getattr(leaf, "_post_accumulate_grad_hooks", None) or {}) for leaf in leaves]
    try:
        return accumulated_gradients(roots, leaves)
    finally:
        for leaf, grad, after in zip(leaves, grads, hooks, strict=True):
            leaf.grad = grad
            if after:
                leaf._post_accumulate_grad_hooks.update(after)


def accumulated_gradients(roots: Sequence[Tensor], leaves: Sequence[Tensor]) -> list[Tensor | None]:
    """What ``backward`` puts into ``.grad`` of each leaf, all of their hooks included.

    Overwrites ``.grad`` and takes post-accumulate-grad hooks away, which distributed autograd
    does not run: for a process of its own.
    """
    for leaf in leaves:
        leaf.grad = None
        after: dict[int, object] | None = getattr(leaf, "_post_accumulate_grad_hooks", None)
        if after:
            after.clear()
    torch.autograd.backward(list(roots), _ones(roots), retain_graph=True)
    return [leaf.grad for leaf in leaves]


def _ones(roots: Sequence[Tensor]) -> list[Tensor | None]:
    """The gradients to begin with; None where torch makes the one itself. Of gradients that it is
    given torch checks the shape, for which it imports sympy: a second, in each copy of a process.
    """
    return [
        None if root.numel() == 1 and root.is_floating_point() else torch.ones_like(root)
        for root in roots
    ]


def _leaf_node(leaf: Tensor) -> Node:
    used = anchor(leaf)  # which keeps its node; and unlike a view, there is one of a sparse tensor
    above: Node = used.grad_fn
    return above.next_functions[0][0]
