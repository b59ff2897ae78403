"""What is read from a node's memory, against what torch's own API says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

from squall.real.autograd.node_abi import MEMORY, node_abi


class Double(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, *others: object) -> Tensor:
        ctx.save_for_backward(a)
        return a * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * 2 * ctx.saved_tensors[0], *[None] * (len(ctx.needs_input_grad) - 1)


def double(*args: object) -> Any:
    """A tensor, which keeps its node: up to torch 2.11 the node's Python object does not."""
    return Double.apply(*args)  # type: ignore[no-untyped-call]


@pytest.fixture
def x() -> Tensor:
    return torch.ones(3, requires_grad=True)


def results(x: Tensor) -> dict[str, Any]:
    changed = x * 1
    changed[0] = x[1]
    return {
        "exp": x.exp(),
        "copy slices": changed,
        "custom": double(x),
        "norm": torch.nn.functional.layer_norm(x, (3,)),
    }


@pytest.mark.parametrize("name", ["exp", "copy slices", "custom", "norm"])
def test_a_released_node_refuses_as_torch_does(name: str, x: Tensor) -> None:
    result = results(x)[name]
    node = result.grad_fn
    node_abi().release_variables(node)
    run = node.apply if name == "custom" else node
    count = len(node._input_metadata)
    if name == "copy slices":  # it saves nothing itself, and releases the node it wraps
        return
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        run(torch.ones(3), *[None] * (count - 1))


def test_hooks_are_found_where_they_are_and_nowhere_else(x: Tensor) -> None:
    abi = node_abi()
    first, second = torch.stack([x, x]).exp().unbind()
    node: Any = second.grad_fn
    pointer = abi.pointer(node)
    assert not any(abi.read_node(MEMORY, pointer)[1:])
    assert not abi.retains_grad(pointer)
    called: list[str] = []
    second.register_hook(lambda _: called.append("tensor 1"))
    first.register_hook(lambda _: called.append("tensor 0"))
    node.register_prehook(lambda _: called.append("pre"))
    node.register_hook(lambda *_: called.append("post"))
    first.retain_grad()
    assert sum(map(bool, abi.read_node(MEMORY, pointer)[1:])) == 4
    assert abi.retains_grad(pointer)
    tensor_hooks = abi.tensor_pre_hooks(pointer)
    assert tensor_hooks is not None
    assert [hook.index for hook in tensor_hooks] == [1, 0]
    for hooks in (tensor_hooks, abi.pre_hooks(pointer)):
        for hook in hooks:
            for call in hook.hooks.values():
                call(None)
    for hook in abi.post_hooks(pointer):
        for call in hook.hooks.values():
            call(None, None)
    assert called == ["tensor 1", "tensor 0", "pre", "post"]


def test_how_a_function_was_called_is_known(x: Tensor) -> None:
    abi = node_abi()
    result = double(x, 1, x, None, *[x, 2] * 40)
    node = result.grad_fn
    inputs = len(node.needs_input_grad)
    expected = (True, False, True, False, *[True, False] * 40)
    assert abi.is_variable_input(node, inputs) == expected
    assert abi.materializes_grads(node)
    node.set_materialize_grads(False)
    assert not abi.materializes_grads(node)


def test_it_is_found_whatever_freed_memory_looks_like() -> None:
    """Python's debug allocator fills memory that was freed, so reading it after is no luck."""
    subprocess.run(
        [sys.executable, "-c", "from squall.real.autograd.node_abi import node_abi; node_abi()"],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        check=True,
    )
