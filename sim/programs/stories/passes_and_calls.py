"""Stories about what meets a backward pass: a call that fails while its context has passes, user code
that changes grad mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import stories_of
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import error_of, sleep

label_module(__name__, "meetings")
story = stories_of(__name__, rank=112)

#: virtual seconds after which the call is given up, and that what meets it takes longer
_LIMIT_S, _LONGER_S = 2.0, 0.5
#: where a worker has what a call has computed that has not ended, and what hooks have seen there
_MADE, _SEEN = "made by a call that goes on", "grad modes that hooks have seen"


def _leaf(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


# -- a call that fails --------------------------------------------------------------------------------


def squares_and_goes_on(x: Tensor, key: int) -> None:
    """Compute something that others can fetch, and take too long."""
    current_worker().locals[_MADE, key] = rpc.RRef(x * x)
    sleep(_LIMIT_S + 2 * _LONGER_S)


def made_by(key: int) -> Any:
    return current_worker().locals.pop((_MADE, key))


def _waits_in(time: int, until_s: float) -> Callable[[Tensor], None]:
    """A hook that waits in its call of this number."""
    calls: list[None] = []

    def hook(grad: Tensor) -> None:
        calls.append(None)
        if len(calls) == time + 1:
            sleep(max(0.0, until_s - current_task().runtime.now()))

    return hook


@story(
    "call fails",
    numbers={"before": (0, 2), "when": (0, 2), "after": (0, 2)},
    longest_s=20.0,
    port_only="a pass waits there for ever for the gradients of a call that has failed",
)
def call_fails(to: int, before: int, when: int, after: int) -> str:
    """A call is given up after some passes through what it has computed: before the next pass, in it
    while gradients of the call are still to come, or in it when they have. Only then that pass goes
    through; none waits for what will not come, and what was found stays as it is."""
    runtime = current_task().runtime
    facts: dict[str, bool] = {}
    with autograd.context() as context_id:
        until_s = runtime.now() + _LIMIT_S + _LONGER_S
        leaf = _leaf(1, 2)
        x = leaf * 1
        x.register_hook(_waits_in(before, until_s if when == 2 else 0.0))
        call = rpc.rpc_async(to, squares_and_goes_on, args=(x, context_id), timeout=_LIMIT_S)
        sleep(_LONGER_S)
        y = rpc.rpc_sync(to, made_by, args=(context_id,)).to_here()
        z = y * 1
        z.register_hook(_waits_in(before, until_s if when == 1 else 0.0))
        root = z.sum()
        for _ in range(before):
            autograd.backward(context_id, [root], retain_graph=True)
        if when == 0:
            sleep(until_s - runtime.now())
        said = error_of(lambda: autograd.backward(context_id, [root], retain_graph=True))
        wanted = ("Could not find send function", "no gradients of autograd message", "no error")
        facts["the pass ends as it should"] = wanted[when] in said
        facts["the call was given up"] = "RPC ran for more than" in error_of(call.wait)
        for number in range(after):
            again = error_of(lambda: autograd.backward(context_id, [root], retain_graph=True))
            facts[f"pass {number} after it is refused"] = wanted[0] in again
        passes = before + (when == 2)
        gradient = autograd.get_gradients(context_id).get(leaf)
        found = None if gradient is None else gradient.tolist()
        facts["the gradient is that of passes that went through"] = found == (
            [2.0 * passes, 4.0 * passes] if passes else None
        )
    sleep(max(0.0, until_s + _LONGER_S - runtime.now()))
    return told(**facts)


# -- grad mode -----------------------------------------------------------------------------------------


def _switch_on(*_: object) -> None:
    """A hook that leaves grad mode on."""
    torch.set_grad_enabled(True)


class _SwitchOn(torch.autograd.Function):
    """Twice its input; its backward leaves grad mode on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        torch.set_grad_enabled(True)
        return grad * 2


#: where grad mode is left on
_PLACES = (
    "tensor",
    "node_pre",
    "node_post",
    "backward",
    "leaf",
    "accumulate_pre",
    "accumulate_post",
)


def _looks(tensor: Tensor, seen: list[bool]) -> Tensor:
    """The tensor, with a hook that notes grad mode, and whether its gradient has a graph."""
    tensor.register_hook(lambda grad: seen.append(torch.is_grad_enabled()))
    return tensor


def careless(x: Tensor, place: str, key: int, deep: int) -> Tensor:
    """Twice ``x``, times numbers that need a gradient; and user code that leaves grad mode on, before
    nodes that look."""
    seen = current_worker().locals.setdefault((_SEEN, key), [])
    for _ in range(deep):
        x = _looks(x * _leaf(1, 1), seen)
    if place == "backward":
        y: Tensor = _SwitchOn.apply(x)  # type: ignore[no-untyped-call]
    else:
        y = x * 2
    node: Any = y.grad_fn
    if place == "tensor":
        y.register_hook(_switch_on)
    elif place == "node_pre":
        node.register_prehook(_switch_on)
    elif place == "node_post":
        node.register_hook(_switch_on)
    else:
        leaf = _leaf(1, 1)
        at: Any = torch.autograd.graph.get_gradient_edge(leaf).node
        if place == "leaf":
            leaf.register_hook(_switch_on)
        elif place == "accumulate_pre":
            at.register_prehook(_switch_on)
        elif place == "accumulate_post":
            at.register_hook(_switch_on)
        y = y * 1 * 1 + leaf
    return y


def modes_seen(key: int) -> list[bool]:
    seen: list[bool] = current_worker().locals.pop((_SEEN, key), [])
    return seen


@story(
    "grad mode left on",
    numbers={"place": (0, len(_PLACES) - 1), "deep": (1, 3), "remote": (0, 1), "passes": (1, 2)},
    port_only="what a hook does to grad mode lasts there until its node is done",
)
def grad_mode_left_on(to: int, place: int, deep: int, remote: int, passes: int) -> str:
    """What a hook, or the backward of a custom function, does to grad mode ends with its node: the
    nodes behind it, those of other workers too, run without, and no gradient has a graph."""
    facts: dict[str, bool] = {}
    here: int = rpc.get_worker_info().id
    with autograd.context() as context_id:
        leaf = _leaf(1, 2)
        seen: list[bool] = []
        x = _looks(leaf * _leaf(1, 1), seen)
        args = (x, _PLACES[place], context_id, deep)
        y = rpc.rpc_sync(to, careless, args=args) if remote else careless(*args)
        root = (y * _leaf(1, 1)).sum()
        for _ in range(passes):
            autograd.backward(context_id, [root], retain_graph=True)
        seen += (
            rpc.rpc_sync(to, modes_seen, args=(context_id,)) if remote else modes_seen(context_id)
        )
        facts["all that look were called"] = len(seen) == passes * (1 + deep)
        facts["all run without grad mode"] = not any(seen)
        gradients = autograd.get_gradients(context_id)
        facts["no gradient has a graph"] = not any(g.requires_grad for g in gradients.values())
        facts["the gradient is right"] = gradients[leaf].tolist() == [2.0 * passes] * 2
        facts["grad mode is as it was"] = torch.is_grad_enabled() and here >= 0
    return told(**facts)
