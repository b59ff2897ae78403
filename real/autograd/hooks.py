"""Calls the hooks of a node, each once and in torch's order.

torch/csrc/autograd/python_hook.cpp and ``call_tensor_pre_hooks``, ``call_pre_hooks``,
``call_post_hooks`` in torch/csrc/autograd/engine.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from squall.real.autograd.node_abi import node_abi
from squall.real.process_locks import TENSOR_HOOKS

if TYPE_CHECKING:
    from squall.real.autograd.node import Node

Grads = list["Tensor | None"]


def call_tensor_pre_hooks(func: Node, pointer: int, inputs: Grads) -> Grads:
    """Hooks of the tensors that ``func`` made, then ``retain_grad``; the gradients they leave."""
    abi = node_abi()
    with TENSOR_HOOKS:
        hooks = abi.tensor_pre_hooks(pointer)
        calls = [] if hooks is None else [(hook.index, list(hook.hooks.values())) for hook in hooks]
    if hooks is None:
        return _call_through_torch(func, inputs)
    outputs = list(inputs)
    for index, each in calls:
        outputs[index] = _call_hooks(each, outputs[index])
    if abi.retains_grad(pointer):
        # Torch keeps these to itself, so its engine calls them; ours have had their turn.
        with TENSOR_HOOKS:
            saved = [(hook.hooks, dict(hook.hooks)) for hook in hooks]
            for live, _ in saved:
                live.clear()
            try:
                outputs = _call_through_torch(func, outputs)
            finally:
                for live, entries in saved:
                    live.update(entries)
    return outputs


def call_leaf_hooks(variable: Tensor, inputs: Grads) -> None:
    """Hooks of a leaf, which live on the tensor; changes ``inputs[0]``."""
    hooks: Any = variable._backward_hooks
    if hooks:
        inputs[0] = _call_hooks(list(hooks.values()), inputs[0])


def _call_hooks(hooks: list[Callable[..., Any]], grad: Tensor | None) -> Tensor | None:
    for call in hooks:
        grad = _check_single_result(grad, call(grad), call)
    return grad


def call_pre_hooks(pointer: int, inputs: Grads) -> Grads:
    """Hooks of ``Node.register_prehook``; they may replace the inputs."""
    values: tuple[Tensor | None, ...] = tuple(inputs)
    for hook in node_abi().pre_hooks(pointer):
        for call in list(hook.hooks.values()):
            values = _check_result(values, call(values), call)
    return list(values)


def call_post_hooks(pointer: int, outputs: Grads, inputs: Grads) -> Grads:
    """Hooks of ``Node.register_hook``; they may replace the outputs."""
    given = tuple(inputs)
    values: tuple[Tensor | None, ...] = tuple(outputs)
    for hook in node_abi().post_hooks(pointer):
        for call in list(hook.hooks.values()):
            values = _check_result(values, call(values, given), call)
    return list(values)


def _call_through_torch(func: Node, inputs: Grads) -> Grads:
    """Let torch's engine call the tensor hooks of a node.

    With the same edges as roots and as inputs it calls these hooks, returns what they left and
    runs nothing. It cannot be given an undefined gradient, so a node with none defined is
    passed over.
    """
    defined = [i for i, grad in enumerate(inputs) if grad is not None]
    if not defined:
        return inputs
    edges = tuple(GradientEdge(func, i) for i in defined)
    run_backward = cast(Any, torch.autograd.Variable)._execution_engine.run_backward
    given = tuple(inputs[i] for i in defined)
    results = run_backward(edges, given, True, False, edges, True, False)
    outputs = list(inputs)
    for i, result in zip(defined, results, strict=True):
        outputs[i] = result
    return outputs


def _check_result(
    previous: tuple[Tensor | None, ...], result: Any, hook: Callable[..., Any]
) -> tuple[Tensor | None, ...]:
    """The values after a hook on a node. Raises TypeError or RuntimeError as torch does."""
    if result is None:
        return previous
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    if len(result) != len(previous):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values "
            f"(got {len(result)}, but expected {len(previous)})"
        )
    for old, new in zip(previous, result, strict=True):
        _check_single_result(old, new, hook)
    return result


def _check_single_result(
    original: Tensor | None, result: Any, hook: Callable[..., Any]
) -> Tensor | None:
    """The value after a hook on a tensor. Raises TypeError or RuntimeError as torch does."""
    if result is None:
        return original
    if original is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if original.type() != result.type():
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value "
            f"(was {original.type()} got {result.type()})"
        )
    if original.shape != result.shape:
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")
    return result


def _name(hook: Callable[..., Any]) -> str:
    return str(getattr(hook, "__name__", "<unknown>"))
