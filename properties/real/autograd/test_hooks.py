"""Hooks of every kind: called once, in torch's order, with the arguments that torch passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from squall.properties.support.one_worker import dist_backward, leaf
from squall.real.autograd.graph_task import queue_callback


def hooked_graph(log: list[object]) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """A loss whose nodes and tensors have hooks of every kind, all writing to ``log``."""
    x, w = leaf(3), leaf(3)
    y = x * w
    a, b = torch.stack([y, y * 2]).unbind()
    z = a.exp() + b
    unused = z.sin()

    def note(name: str) -> Callable[..., None]:
        def hook(*args: Any) -> None:
            log.append((name, *(shown(arg) for arg in args), torch.is_grad_enabled()))

        return hook

    def shown(value: Any) -> object:
        if isinstance(value, tuple):
            return tuple(shown(v) for v in value)
        return None if value is None else value.tolist()

    for name, tensor in [("x", x), ("y", y), ("a", a), ("b", b), ("z", z), ("unused", unused)]:
        tensor.register_hook(note(f"tensor {name}"))
    y.register_hook(lambda grad: grad * 2)
    y.register_hook(note("tensor y again"))
    x.register_hook(lambda grad: grad + 1)
    for name, node in [
        ("y", y.grad_fn),
        ("unbind", a.grad_fn),
        ("x", y.grad_fn.next_functions[0][0]),  # type: ignore[union-attr]
    ]:
        assert node is not None
        node.register_prehook(note(f"pre {name}"))
        node.register_prehook(lambda grads: tuple(g * 3 for g in grads))
        node.register_hook(note(f"post {name}"))
    a.grad_fn.register_hook(lambda outputs, inputs: (outputs[0] * 5,))  # type: ignore[union-attr]
    retained = [y, b, z]
    for tensor in retained:
        tensor.retain_grad()
    return [x, w], retained, z.sum()


def test_hooks_are_called_once_and_in_the_order_of_torch() -> None:
    torch.manual_seed(0)
    expected_log: list[object] = []
    leaves, retained, loss = hooked_graph(expected_log)
    loss.backward()
    torch.manual_seed(0)
    log: list[object] = []
    my_leaves, my_retained, my_loss = hooked_graph(log)
    gradients = dist_backward(my_loss)
    assert log == expected_log
    for theirs, mine in zip(leaves, my_leaves, strict=True):
        assert theirs.grad is not None
        assert torch.equal(theirs.grad, gradients[mine])
    for theirs, mine in zip(retained, my_retained, strict=True):
        assert theirs.grad is not None
        assert mine.grad is not None
        assert torch.equal(theirs.grad, mine.grad)


def test_post_accumulate_grad_hooks_are_left_out_as_torch_leaves_them_out() -> None:
    # Torch's distributed engine never touches .grad and so never calls them; seen on torch 2.13.
    called: list[Tensor] = []
    x = leaf(2)
    x.register_post_accumulate_grad_hook(called.append)
    dist_backward((x * 2).sum())
    assert called == []


def test_removed_hooks_are_not_called() -> None:
    x = leaf(2)
    y = x * 2
    log: list[str] = []
    for handle in (
        y.register_hook(lambda _: log.append("tensor")),
        y.grad_fn.register_prehook(lambda _: log.append("pre")),  # type: ignore[union-attr]
        y.grad_fn.register_hook(lambda *_: log.append("post")),  # type: ignore[union-attr]
    ):
        handle.remove()
    dist_backward(y.sum())
    assert log == []


@pytest.mark.parametrize(
    ("kind", "hook"),
    [
        ("tensor", lambda grad: grad[:1]),
        ("tensor", lambda grad: grad.double()),
        ("tensor", lambda grad: 3),
        ("pre", lambda grads: grads[0]),
        ("pre", lambda grads: (grads[0], grads[0])),
        ("post", lambda outputs, inputs: 3),
        ("post", lambda outputs, inputs: (outputs[0], outputs[0])),
        ("post", lambda outputs, inputs: (outputs[0][:1], None)),
    ],
)
def test_bad_results_of_hooks_raise_what_torch_raises(kind: str, hook: Any) -> None:
    def build() -> Tensor:
        y = leaf(3) * 2
        node: Any = y.grad_fn
        {"tensor": y.register_hook, "pre": node.register_prehook, "post": node.register_hook}[kind](
            hook
        )
        return y.sum()

    with pytest.raises((RuntimeError, TypeError)) as theirs:
        build().backward()
    with pytest.raises(RuntimeError) as mine:
        dist_backward(build())
    assert str(mine.value) == f"Error on Node 0: {theirs.value}"


def test_final_callbacks_run_after_the_last_node() -> None:
    log: list[str] = []
    x = leaf(2)
    y = x * 2
    y.register_hook(lambda _: queue_callback(lambda: log.append("final")))
    x.register_hook(lambda _: log.append("leaf"))
    dist_backward(y.sum())
    assert log == ["leaf", "final"]
