"""A story about several hooks in one place: each sees what the hooks before it have left, whether there
is a gradient or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import stories_of
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.sim.programs.stories.api import told

label_module(__name__, "hooks")
story = stories_of(__name__, rank=121)

#: where hooks are put: on one of two tensors that a node makes, before and behind the node, on a leaf,
#: before and behind what accumulates its gradient
_PLACES = ("tensor", "node_pre", "node_post", "leaf", "accumulate_pre", "accumulate_post")
_MISSING_ONE, _MISSING_ALL = 1, 2
#: what a hook does with each gradient; the first is no hook, the second returns nothing, the last
#: leaves none, on a node
_CHANGES: tuple[Callable[[Tensor], Tensor | None] | None, ...] = (
    None,
    None,
    lambda grad: grad * 2,
    lambda grad: grad + 1,
    lambda grad: None,
)
_PASSES = 2

Grads = Sequence[Tensor | None]


class _Nothing(torch.autograd.Function):
    """Its input; its backward gives no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        return None


def _numbers(grads: Grads) -> list[object]:
    return [None if grad is None else grad.tolist() for grad in grads]


class _Hooked:
    """A graph with hooks in one place, and what they have seen."""

    def __init__(self, place: str, hooks: Sequence[int], missing: int) -> None:
        self.seen: list[object] = []
        #: what is told behind the node, of what the hooks before it have left
        self.behind: list[object] = []
        self.leaf = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        other = torch.ones(1, dtype=torch.float64, requires_grad=True)
        first, second = torch.split(self.leaf * 3, [1, 1])
        kept: Any = first.grad_fn
        register: Any
        if place == "leaf":
            register = self.leaf.register_hook
        elif place == "tensor":
            register = second.register_hook
        else:
            if place.startswith("accumulate"):
                kept = torch.autograd.graph.get_gradient_edge(self.leaf).node
            register = kept.register_prehook if place.endswith("pre") else kept.register_hook
        for number, kind in enumerate(hooks):
            if kind:
                register(self._hook(number, kind, alone=place in ("leaf", "tensor")))
        if place in ("tensor", "node_pre"):
            kept.register_hook(lambda *given: self.behind.append([*map(_numbers, given)]))
        used = first if missing == _MISSING_ONE else first * 2 + second
        if missing == _MISSING_ALL:
            used = _Nothing.apply(used)  # type: ignore[no-untyped-call]
        self.root = (used + other).sum()
        self._kept = kept  # the hooks of what accumulates go with it

    def _hook(self, number: int, kind: int, *, alone: bool) -> Callable[..., Any]:
        change = _CHANGES[kind]

        def hook(grads: Any, *given: Grads) -> Any:
            grads = (grads,) if alone else grads
            self.seen.append((number, _numbers(grads), *map(_numbers, given)))
            if change is None:
                return None
            changed = tuple(None if grad is None else change(grad) for grad in grads)
            return changed[0] if alone else changed

        return hook


def same_as_in_one_process(place: int, hooks: tuple[int, ...], missing: int) -> str:
    """Whether hooks see, and leave, in a distributed pass what they do in one of torch's own engine."""
    ours, theirs = (_Hooked(_PLACES[place], hooks, missing) for _ in range(2))
    found: list[object] = []
    wanted: list[object] = []
    with autograd.context() as context_id:
        for _ in range(_PASSES):
            autograd.backward(context_id, [ours.root], retain_graph=True)
            found += _numbers([autograd.get_gradients(context_id).get(ours.leaf)])
            torch.autograd.backward([theirs.root], retain_graph=True)
            wanted += _numbers([theirs.leaf.grad])
    return told(
        called=len(ours.seen) == _PASSES * sum(map(bool, hooks)),
        seen=ours.seen == theirs.seen,
        behind=ours.behind == theirs.behind,
        left=found == wanted,
    )


@story(
    "hooks in a row",
    numbers={
        "place": (0, len(_PLACES) - 1),
        "first": (0, len(_CHANGES) - 1),
        "second": (0, len(_CHANGES) - 1),
        "third": (0, len(_CHANGES) - 1),
        "missing": (0, 2),
    },
)
def hooks_in_a_row(to: int, place: int, first: int, second: int, third: int, missing: int) -> str:
    """Up to three hooks in one place, which look at the gradient, double it, add one or drop it: each
    sees what those before it left, and is called without a gradient too, as in torch's own engine."""
    args = (place, (first, second, third), missing)
    found: str = rpc.rpc_sync(to, same_as_in_one_process, args=args)
    return found
