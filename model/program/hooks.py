"""The hooks of programs, on what operations make and on leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor

from squall.model.program.compare import to_dense
from squall.model.program.program import Hook, LeafHook, LeafSleep, Sleep

#: waits so many seconds of virtual time; None where nobody is to wait
Wait = Callable[[float], None]

#: tensors that retain their gradient, made since the last call of :func:`retained`
_retaining: list[Tensor] = []

#: gradients that hooks have looked at since the last call of :func:`written`, and the version of each
_looked_at: list[tuple[Tensor, int]] = []

#: whether a pass is only tried out, and hooks are to leave no trace
_rehearsing = False


def _look(grad: Tensor | None) -> None:
    if grad is not None and not _rehearsing:
        _looked_at.append((grad, grad._version))


#: They are called without a gradient too, where only another output of the node has one.
TENSOR_HOOKS: dict[str, Callable[[Tensor | None], Tensor | None]] = {
    "double": lambda grad: None if grad is None else grad * 2,
    "increment": lambda grad: None if grad is None else grad + 1,
    "look": _look,
}


@contextmanager
def rehearsing() -> Iterator[None]:
    """A backward pass in here is seen by nobody: its hooks give what they would give in any other
    one, but none waits or adds anything up, and no tensor retains its gradient."""
    global _rehearsing
    kept = [(tensor, tensor.grad) for tensor in _retaining]
    _rehearsing = True
    try:
        yield
    finally:
        _rehearsing = False
        for tensor, grad in kept:
            tensor.grad = grad


def retained() -> float:
    """The sum of all gradients that tensors have retained since the last call."""
    total = sum(total_of(tensor.grad) for tensor in _retaining)
    _retaining.clear()
    return total


def written() -> int:
    """How many of the gradients that hooks have looked at, and kept, were written to after that: none
    of them is anybody else's to write to. Since the last call."""
    count = sum(grad._version != version for grad, version in _looked_at)
    _looked_at.clear()
    return count


def total_of(grad: Tensor | None) -> float:
    """The sum of a gradient's elements; of real numbers only."""
    if grad is None or grad.is_complex():
        return 0.0
    return float(to_dense(grad.detach()).double().sum())


class _Summing:
    """A hook behind a leaf's AccumulateGrad: adds up what it sees, as the leaf's ``seen``."""

    def __init__(self, leaf: Tensor) -> None:
        self.seen: list[float] = leaf.__dict__.setdefault("seen", [])

    def __call__(self, _: Sequence[Tensor | None], grads: Sequence[Tensor | None]) -> None:
        if not _rehearsing:
            self.seen += map(total_of, grads)


def _double_all(grads: Sequence[Tensor | None], *_: Any) -> tuple[Tensor | None, ...]:
    return tuple(None if grad is None else grad * 2 for grad in grads)


class _Sleeping:
    """A hook that sleeps, and changes nothing."""

    def __init__(self, seconds: Sequence[float], wait: Wait | None) -> None:
        self._left = list(reversed(seconds))
        self._wait = wait

    def __call__(self, *_: object) -> None:
        if _rehearsing:
            return
        # In the order of the calls, also where one begins while another one sleeps.
        seconds = self._left.pop() if self._left else 0.0
        if seconds and self._wait is not None:
            self._wait(seconds)


class _SleepInBackward(torch.autograd.Function):
    """The identity, whose backward sleeps."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sleeping: _Sleeping) -> Tensor:
        ctx.sleeping = sleeping
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        ctx.sleeping()
        return grad, None


def sleep_in_argument(x: Tensor, sleep: Sleep, wait: Wait | None) -> None:
    """Let a hook on an input of an operation sleep."""
    if x.requires_grad:
        x.register_hook(_Sleeping(sleep.seconds, wait))


def sleep_in_result(out: Tensor, sleep: Sleep, wait: Wait | None) -> Tensor:
    """What an operation made, with user code behind it that sleeps in backward passes."""
    sleeping = _Sleeping(sleep.seconds, wait)
    if sleep.at == "result":
        out.register_hook(sleeping)
        return out
    inner = sleeping if sleep.at == "backward" else _AT_ONCE
    through = cast(Tensor, _SleepInBackward.apply(out, inner))  # type: ignore[no-untyped-call]
    node = cast(Any, through.grad_fn)
    if sleep.at == "node_pre":
        node.register_prehook(sleeping)
    elif sleep.at == "node_post":
        node.register_hook(sleeping)
    return through


_AT_ONCE = _Sleeping((), None)


def add_leaf_sleep(leaf: Tensor, sleep: LeafSleep, wait: Wait | None) -> Any:
    """Let a hook on a leaf sleep. Returns what has to be kept for the hook to stay."""
    sleeping = _Sleeping(sleep.seconds, wait)
    if sleep.at == "tensor":
        return leaf.register_hook(sleeping)
    node = cast(Any, torch.autograd.graph.get_gradient_edge(leaf).node)
    (node.register_prehook if sleep.at == "accumulate_pre" else node.register_hook)(sleeping)
    return node


def add_hook(out: Tensor, hook: Hook) -> None:
    """Put a hook on what an operation made."""
    if hook == "retain_grad":
        out.retain_grad()
        _retaining.append(out)
        return
    if hook == "node_pre" or hook == "node_post":
        node = cast(Any, out.grad_fn)
        register = node.register_prehook if hook == "node_pre" else node.register_hook
        _call_once(register)
        register(_double_all)
        return
    _call_once(out.register_hook)
    out.register_hook(TENSOR_HOOKS[hook])


def _call_once(register: Callable[[Callable[..., None]], Any]) -> None:
    """Put a hook before another one that takes itself away as it is called: the other one is called
    all the same."""

    def hook(*_: object) -> None:
        if not _rehearsing:
            handle.remove()

    handle = register(hook)


def add_leaf_hook(leaf: Tensor, hook: LeafHook) -> Any:
    """Put a hook on a leaf. Returns what has to be kept for the hook to stay."""
    if hook == "post_accumulate":
        # Distributed autograd keeps gradients in the context and never calls it.
        return leaf.register_post_accumulate_grad_hook(lambda leaf: None)
    if hook == "accumulate_pre" or hook == "accumulate_post":
        node = cast(Any, torch.autograd.graph.get_gradient_edge(leaf).node)
        if hook == "accumulate_pre":
            _call_once(node.register_prehook)
            node.register_prehook(_double_all)
        else:
            _call_once(node.register_hook)
            node.register_hook(_Summing(leaf))
        return node
    _call_once(leaf.register_hook)
    return leaf.register_hook(TENSOR_HOOKS[hook])
