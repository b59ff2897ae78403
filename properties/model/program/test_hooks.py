"""The hooks of programs see what is done to gradients behind their backs."""

from __future__ import annotations

import torch
from torch import Tensor

from squall.model.program.hooks import add_hook, add_leaf_hook, rehearsing, written


def squared() -> tuple[Tensor, Tensor]:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    return x, x * x


def test_torch_leaves_alone_what_a_hook_has_looked_at() -> None:
    x, y = squared()
    written()
    add_hook(y, "look")
    add_leaf_hook(x, "look")
    for _ in range(2):
        (y + y).sum().backward(retain_graph=True)
    assert written() == 0


def test_a_gradient_that_is_written_to_after_a_hook_has_looked_at_it_is_counted_once() -> None:
    _, y = squared()
    written()
    given: list[Tensor] = []
    add_hook(y, "look")
    y.register_hook(given.append)
    (y * 2).sum().backward()
    given[0].add_(1)
    assert written() == 1
    assert written() == 0


def test_a_pass_that_is_only_tried_out_is_not_looked_at() -> None:
    x, y = squared()
    written()
    given: list[Tensor] = []
    add_hook(y, "look")
    y.register_hook(given.append)
    with rehearsing():
        torch.autograd.grad((y * 2).sum(), x)
    given[0].add_(1)
    assert written() == 0


def test_before_each_hook_is_one_that_goes_as_it_is_called() -> None:
    x, y = squared()
    add_leaf_hook(x, "double")
    add_hook(y, "double")
    assert len(x._backward_hooks or ()) == len(y._backward_hooks or ()) == 2
    for _ in range(2):
        x.grad = None
        y.sum().backward(retain_graph=True)
        assert x.grad is not None and x.grad.tolist() == [8.0, 8.0]
        assert len(x._backward_hooks or ()) == len(y._backward_hooks or ()) == 1
