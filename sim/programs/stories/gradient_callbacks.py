"""Stories about callbacks that look at a gradient of a context, and replace it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from squall.model.program.stories import AS_IT_SHOULD_BE, stories_of
from squall.real.autograd import api as autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.wire_names import label_module
from squall.real.worker import current_worker
from squall.sim.programs.stories.api import told
from squall.sim.programs.stories.calls import error_of

label_module(__name__, "gradient callbacks")
story = stories_of(__name__, rank=95)


def double(x: Tensor) -> Tensor:
    return x * 2


def replaced(context_id: int, leaf: Tensor, factor: int) -> list[float]:
    """Let a callback multiply the gradient of a leaf; what it saw."""
    container: Any = current_worker().container
    context = container.retrieve_context(context_id)
    seen: list[float] = []

    def callback(grad: Tensor) -> Tensor | None:
        seen.extend(grad.tolist())
        return grad * factor if factor else None

    context.run_grad_callback_for_variable(leaf, callback)
    return seen


@story(
    "gradient callbacks",
    numbers={"passes": (1, 3), "factor": (0, 3), "leaves": (1, 3), "within": (0, 1)},
    port_only="PyTorch runs such callbacks for its reducer in C++ alone",
)
def gradient_callbacks(to: int, passes: int, factor: int, leaves: int, within: int) -> str:
    """What a callback gives for a gradient takes its place, after a pass or in a hook of one, and
    what a later pass finds is added to it; other leaves, and ``.grad``, stay as they are."""
    if current_worker().tracer.observer is not None:
        return AS_IT_SHOULD_BE  # each pass is compared with one in which no callback is called
    tensors = [torch.full((2,), float(n + 1), requires_grad=True) for n in range(leaves)]
    first, others = tensors[0], tensors[1:]
    facts: dict[str, bool] = {}
    with autograd.context() as context_id:
        if within:
            accumulate: Any = first.view_as(first).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
            accumulate.register_hook(lambda *_: replaced(context_id, first, factor) and None)
        early = error_of(lambda: replaced(context_id, first, factor))
        value = 0.0
        loss = sum(rpc.rpc_sync(to, double, args=(tensor,)).sum() for tensor in tensors)
        for number in range(passes):
            autograd.backward(context_id, [loss], retain_graph=number < passes - 1)
            value += 2
            if within:
                value *= factor or 1
            else:
                seen = replaced(context_id, first, factor)
                facts[f"seen_{number}"] = seen == [value, value]
                value *= factor or 1
            gradients = autograd.get_gradients(context_id)
            facts[f"replaced_{number}"] = gradients[first].tolist() == [value, value]
            facts[f"others_{number}"] = all(
                gradients[other].tolist() == [2.0 * (number + 1)] * 2 for other in others
            )
    return told(
        none_at_first=early.startswith("RuntimeError"),
        untouched=all(tensor.grad is None for tensor in tensors),
        **facts,
    )
