"""What is read of a node's inputs from its memory, against what torch's own API says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

from squall.real.autograd.input_abi import InputAbi, input_abi


class Double(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
        return a * 2, a.sum()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2


@pytest.fixture
def abi() -> InputAbi:
    found = input_abi()
    assert found is not None, f"not found in torch {torch.__version__}"
    return found


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(shape, dtype=dtype, requires_grad=True)


#: made by the test that asks: torch imports a compiler for the first function on meta
NODES: dict[str, Callable[[], Any]] = {
    "a scalar": lambda: leaf().exp().grad_fn,
    "one dimension": lambda: leaf(3).exp().grad_fn,
    "five dimensions": lambda: leaf(1, 2, 3, 4, 5).exp().grad_fn,
    "nothing in it": lambda: leaf(2, 0, 3).exp().grad_fn,
    "double": lambda: leaf(3, dtype=torch.float64).exp().grad_fn,
    "complex": lambda: leaf(3, dtype=torch.complex64).exp().grad_fn,
    "on meta": lambda: torch.ones(3, device="meta", requires_grad=True).exp().grad_fn,
    "a leaf": lambda: leaf(4, 2).view(8).grad_fn.next_functions[0][0],  # type: ignore[union-attr]
    "several inputs": lambda: leaf(2, 3).unbind(1)[0].grad_fn,
    "inputs of several kinds": lambda: (
        torch.ops.aten.native_layer_norm(leaf(2, 3), (3,), None, None, 1)[0].grad_fn
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_the_shapes_of_a_nodes_inputs_are_those_that_torch_gives(name: str, abi: InputAbi) -> None:
    node = NODES[name]()
    assert abi.shapes(node) == tuple(tuple(each.shape) for each in node._input_metadata)


@pytest.mark.parametrize("name", NODES)
def test_a_gradient_like_the_input_is_what_it_expects_and_no_other_is(
    name: str, abi: InputAbi
) -> None:
    node = NODES[name]()
    inputs = node._input_metadata
    for number, expected in enumerate(inputs):
        grad = torch.empty(tuple(expected.shape), dtype=expected.dtype, device=expected.device)
        assert abi.expects(node, number, grad) == len(inputs)
        other = torch.complex128 if expected.dtype.is_complex else torch.float16
        assert abi.expects(node, number, grad.to(other)) == 0
        assert abi.expects(node, number, grad.unsqueeze(0)) == 0
        if expected.device.type == "cpu":
            assert abi.expects(node, number, grad.to_sparse()) == 0
            assert abi.expects(node, number, grad.to("meta")) == 0


def test_a_custom_functions_node_is_read_as_well(abi: InputAbi) -> None:
    result, total = Double.apply(leaf(2, 3))  # type: ignore[no-untyped-call]
    assert abi.shapes(result.grad_fn) == ((2, 3), ())
    assert abi.expects(result.grad_fn, 0, torch.ones(2, 3)) == 2
    assert abi.expects(result.grad_fn, 1, torch.ones(())) == 2
    assert total.grad_fn is result.grad_fn


def test_of_more_dimensions_than_are_kept_in_place_nothing_is_known(abi: InputAbi) -> None:
    node: Any = leaf(1, 1, 1, 1, 1, 2).exp().grad_fn
    assert abi.shapes(node) is None
    assert abi.expects(node, 0, torch.ones(1, 1, 1, 1, 1, 2)) == 0
