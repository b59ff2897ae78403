"""Runs the node of a custom ``autograd.Function`` (``PyNode::apply``,
torch/csrc/autograd/python_function.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from squall.real.autograd.node_abi import node_abi

if TYPE_CHECKING:
    from squall.real.autograd.node import Node


def apply_python_node(node: Node, inputs: list[Tensor | None]) -> list[Tensor | None]:
    """The gradients of the tensors that the Function was given, one for each edge.

    Missing gradients are zeros unless ``set_materialize_grads(False)`` was called. Raises
    whatever the user's ``backward`` raises, and RuntimeError if it returned something else than
    one gradient, or None, for each input.
    """
    abi = node_abi()
    if any(grad is None for grad in inputs) and abi.materializes_grads(node):
        inputs = [
            zeros_like_input(metadata) if grad is None else grad
            for grad, metadata in zip(inputs, node._input_metadata, strict=True)
        ]
    returned = node.apply(*inputs)
    if not isinstance(returned, tuple):
        returned = (returned,)
    expected = len(node.needs_input_grad)
    if len(returned) > expected and all(grad is None for grad in returned[expected:]):
        returned = returned[:expected]
    if len(returned) != expected:
        raise RuntimeError(
            f"function {node.name()} returned an incorrect number of gradients "
            f"(expected {expected}, got {len(returned)})"
        )
    outputs: list[Tensor | None] = []
    for i, is_variable in enumerate(abi.is_variable_input(node, expected)):
        grad = returned[i]
        if is_variable:
            if grad is not None and not isinstance(grad, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
            outputs.append(grad)
        elif grad is not None:
            raise RuntimeError(
                f"function {node.name()} returned a gradient different than None at position "
                f"{i + 1}, but the corresponding forward input was not a Variable"
            )
    return outputs


def zeros_like_input(metadata: Any) -> Tensor:
    """Zeros of the shape, dtype and device of a node's input."""
    return torch.zeros(metadata.shape, dtype=metadata.dtype, device=metadata.device)
