"""Where gradients enter a worker's graph: the edges of tensors, and what keeps their nodes."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import Tensor

from squall.real.autograd import functions
from squall.real.autograd.functions import SendRpcBackward, gradient_edge, gradient_edges


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2


def doubled(tensor: Tensor) -> Tensor:
    return cast(Tensor, cast(Any, Doubled).apply(tensor))


def test_the_edge_of_a_leaf_is_where_its_gradient_accumulates() -> None:
    node, number = gradient_edge(torch.ones(2, requires_grad=True))
    assert (cast(Any, node).name(), number) == ("torch::autograd::AccumulateGrad", 0)


def test_a_custom_function_is_there_when_its_tensors_are_gone() -> None:
    """Up to torch 2.11 its Python object does not keep its C++ node."""
    send = SendRpcBackward([doubled(torch.ones(2, requires_grad=True))], to=cast(Any, 1))
    node: Any = send.next_functions[0][0]
    assert [below.name() for below, _ in node.next_functions] == ["torch::autograd::AccumulateGrad"]


@pytest.mark.parametrize("sparse", [False, True])
def test_a_node_above_it_keeps_it(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on torch 2.11, whichever torch this is."""
    monkeypatch.setattr(functions, "_FUNCTIONS_KEEP_THEIR_NODES", False)
    leaf = torch.ones(2, requires_grad=True)
    tensors = [doubled(leaf.to_sparse() if sparse else leaf), leaf * 3, leaf]
    edges, kept = gradient_edges(tensors)
    assert [node for node, _ in edges[:2]] == [tensor.grad_fn for tensor in tensors[:2]]
    assert [cast(Any, above).next_functions[0][0] for above in kept] == [tensors[0].grad_fn]
