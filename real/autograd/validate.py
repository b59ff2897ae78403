"""Checks the gradients that a node returned (``validate_outputs``, torch/csrc/autograd/engine.cpp,
and InputMetadata, torch/csrc/autograd/input_metadata.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from squall.real.autograd.input_abi import input_abi

if TYPE_CHECKING:
    from squall.real.autograd.node import Edge, Node

_strided = torch.strided


class InputMetadata(Protocol):
    """What torch tells of one input of a node."""

    shape: list[int]
    dtype: torch.dtype
    device: torch.device
    is_nested_tensor: bool


def validate_outputs(
    next_edges: tuple[Edge, ...], grads: list[Tensor | None], node: Node
) -> list[int]:
    """Make ``grads`` fit the inputs of the nodes that they go to, in place.

    A gradient that was broadcast is summed to the input's shape, one of another dtype is
    converted. Returns, for each gradient, how many inputs the node has that it goes to; 0 where
    nobody looked. Raises RuntimeError, naming ``node``, if the number, shape, dtype or device
    cannot be right. (Torch also refuses a compressed sparse gradient of a strided input, but
    does not tell Python an input's layout.)
    """
    if len(grads) != len(next_edges):
        raise RuntimeError(
            f"Function {node.name()} returned an invalid number of gradients - "
            f"expected {len(next_edges)}, but got {len(grads)}"
        )
    sizes = [0] * len(grads)
    abi = input_abi()
    for i, (following, input_nr) in enumerate(next_edges):
        grad = grads[i]
        if grad is not None and following is not None:
            if abi is not None and (size := abi.expects(following, input_nr, grad)):
                sizes[i] = size
                continue
            # Not kept: a metadata object is cheap only while the last one is free to be reused.
            inputs = following._input_metadata
            sizes[i] = len(inputs)
            expected = inputs[input_nr]
            if (
                grad.shape != tuple(expected.shape)
                or grad.dtype is not expected.dtype
                or grad.layout is not _strided
                or grad.device != expected.device
            ):
                grads[i] = make_fit(grad, expected, i, node)
            del inputs, expected
    return sizes


def make_fit(grad: Tensor, expected: InputMetadata, index: int, node: Node) -> Tensor:
    """``grad`` in the shape and dtype that is expected.

    Raises RuntimeError if it cannot be made to fit.
    """
    if expected.is_nested_tensor or grad.is_nested:
        return grad
    shape = tuple(expected.shape)
    if grad.shape != shape:
        if not _is_expandable_to(shape, grad.shape):
            raise RuntimeError(
                f"{_invalid(node, index)} - got {list(grad.shape)} but expected shape "
                f"compatible with {list(shape)}"
            )
        grad = grad.sum_to_size(shape)
    if grad.is_complex() != expected.dtype.is_complex and not grad.is_floating_point():
        raise RuntimeError(
            f"{_invalid(node, index)} - expected type {expected.dtype} but got {grad.dtype}"
        )
    if grad.dtype is not expected.dtype:
        grad = grad.to(expected.dtype)
    if grad.device != expected.device:
        if grad.dim() != 0:
            raise RuntimeError(
                f"{_invalid(node, index)} - expected device {expected.device} but got {grad.device}"
            )
        grad = grad.to(expected.device)
    return grad


def _invalid(node: Node, index: int) -> str:
    return f"Function {node.name()} returned an invalid gradient at index {index}"


def _is_expandable_to(shape: tuple[int, ...], desired: tuple[int, ...]) -> bool:
    if len(shape) > len(desired):
        return False
    return all(
        size in (1, other) for size, other in zip(reversed(shape), reversed(desired), strict=False)
    )
