"""A story about grad mode: whatever is called, it is afterwards what it was before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import stories_of
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import echo

label_module(__name__, "grad modes")
story = stories_of(__name__, rank=122)


def _leaf(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


class _SwitchesOn(torch.autograd.Function):
    """Its input; its backward leaves grad mode on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        torch.set_grad_enabled(True)
        return grad


def _of_a_function(x: Tensor) -> Tensor:
    found: Tensor = _SwitchesOn.apply(x)  # type: ignore[no-untyped-call]
    return found


#: what the root of a pass, or what is sent, may be, made from a scalar
_ROOTS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: x * 1,
    lambda x: x.view(1),
    _of_a_function,
)


def _backward(to: int, context_id: int, root: Tensor) -> None:
    autograd.backward(context_id, [root])


def _backward_of_a_reference(to: int, context_id: int, root: Tensor) -> None:
    rpc.RRef(root).backward(context_id)


def _send(to: int, context_id: int, root: Tensor) -> None:
    rpc.rpc_sync(to, echo, args=(root,))
    rpc.rpc_async(to, echo, args=(root,)).wait()


def _refer(to: int, context_id: int, root: Tensor) -> None:
    rpc.remote(to, echo, args=(root,)).to_here()


def _look(to: int, context_id: int, root: Tensor) -> None:
    autograd.get_gradients(context_id)


class Taker:
    """An object of another worker that is given tensors."""

    def take(self, value: Tensor) -> int:
        return value.numel()


def _ask(to: int, context_id: int, root: Tensor) -> None:
    """By each kind of proxy: one that has to ask for the type first, and one that knows it."""
    asks: tuple[Callable[[Any], object], ...] = (
        lambda there: there.rpc_async().take(root).wait(),
        lambda there: there.rpc_sync().take(root),
        lambda there: there.remote().take(root).to_here(),
    )
    for ask in asks:
        there = rpc.remote(to, Taker)
        ask(there)
        ask(there)


_Call = Callable[[int, int, Tensor], None]
#: calls that send the root, and get nothing back that has a history
_SENDING: tuple[_Call, ...] = (_send, _ask)
_CALLS: tuple[_Call, ...] = (_backward, _backward_of_a_reference, _refer, _look, *_SENDING)


@story(
    "grad mode around calls",
    numbers={"call": (0, len(_CALLS) - 1), "root": (0, len(_ROOTS) - 1)},
)
def grad_mode_around_calls(to: int, call: int, root: int) -> str:
    """Grad mode is the same before and after a call of the API, be it on or off, whatever the tensor is
    that the call is about; and a pass waits for nothing that was sent while it was off."""
    kept, recorded = [], []
    with autograd.context() as context_id:
        for mode in (False, True):
            made = _ROOTS[root]((_leaf(1, 2) * 2).sum())
            with torch.set_grad_enabled(mode):
                _CALLS[call](to, context_id, made)
                kept.append(torch.is_grad_enabled())
                recorded.append((_leaf(1) * 2).requires_grad)
            if not mode and _CALLS[call] in _SENDING:
                autograd.backward(context_id, [(_leaf(3) * 2).sum()])
    return told(as_it_was=kept == [False, True], operations_are_recorded=recorded == [False, True])
