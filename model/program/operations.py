"""All kinds of operations, and what it takes to run one: with hooks, and with planted errors.

Both interpreters, in one process and on workers, use :data:`KINDS`. The kinds themselves are in
model/program/kinds/, and are found there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from squall.model.discovery import modules_in
from squall.model.program.broadcasting import total
from squall.model.program.dtypes import DTYPES
from squall.model.program.hooks import Wait, add_hook, sleep_in_argument, sleep_in_result
from squall.model.program.kind import Kind, Value
from squall.model.program.program import FailingCall, Leaf, Mode, Op, Program


def in_order(kinds: Iterable[Kind]) -> dict[str, Kind]:
    """Kinds by name, in the order of their ranks, and of their names where these are the same.

    Raises ValueError if two have the same name.
    """
    found: dict[str, Kind] = {}
    for kind in sorted(kinds, key=lambda kind: (kind.rank, kind.name)):
        if kind.name in found:
            raise ValueError(f"there are two kinds of operations called {kind.name!r}")
        found[kind.name] = kind
    return found


#: every kind of operation
KINDS: dict[str, Kind] = in_order(
    kind for module in modules_in("squall.model.program.kinds") for kind in module.KINDS
)


class PlantedError(RuntimeError):
    """An error that the program asked for."""


def join(out: Value, x: Tensor) -> Value:
    """The result with the sum of ``x`` added to (the first of) it: what relay ``join`` returns."""
    if isinstance(out, tuple):
        return (out[0] + total((x,)), *out[1:])
    return out + total((x,))


# -- running one ----------------------------------------------------------------------------------


class _Raise(torch.autograd.Function):
    """The identity, whose backward raises."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, text: str) -> Tensor:
        ctx.text = text
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        raise PlantedError(ctx.text)


def raise_in_backward(x: Tensor, text: str) -> Tensor:
    """``x``, through which no gradient passes: PlantedError is raised instead."""
    return cast(Tensor, _Raise.apply(x, text))  # type: ignore[no-untyped-call]


#: what is said where a call that is to fail beside an operation cannot be pickled or unpickled,
#: and, by torch, where a tensor in it cannot be copied
BESIDE = "planted in a call beside an operation"
UNCOPYABLE = "are out of bounds for storage of size"


def said_by_torch() -> str:
    """The error of an operator whose arguments do not fit: its text differs between releases."""
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError as error:
        return str(error)
    raise AssertionError("torch.mm multiplied matrices that do not fit")


#: what the error of a handler says of such calls, by their kind, where that is not :data:`BESIDE`
_SAID: dict[FailingCall, str] = {
    "no future": "Functions decorated with @rpc.async_function must return",
    "unwritable error": "local object",
    "operator": said_by_torch(),
}


def said_of(program: Program) -> list[str]:
    """One of these is in each error of a handler that a call which is to fail brings about."""
    kinds = failing_calls(program)
    if not kinds:
        return []
    return [BESIDE, *(text for kind, text in _SAID.items() if kind in kinds)]


def failing_calls(program: Program) -> set[FailingCall]:
    """The kinds of calls that the program makes in order that they fail."""
    return {
        op.fails_first
        for _, _, step in program.steps
        for op in step.ops
        if op.fails_first is not None
    }


def planted(where: str, trainer: int, step: int, op: int) -> str:
    """The text of the error that a fault of an operation raises."""
    return f"planted in the {where} of trainers[{trainer}].steps[{step}].ops[{op}]"


def compute(
    op: Op, inputs: Sequence[Tensor], *, text: str | None = None, wait: Wait | None = None
) -> Value:
    """What the operation makes of its inputs, hooks and all.

    ``text``: of the error that its fault raises; None: it has no fault (or no more). ``wait``: how
    its hooks sleep; None: not at all.
    """
    if text is not None and op.fault == "udf":
        raise PlantedError(text)
    out = KINDS[op.kind].run(op, inputs)
    if not torch.is_grad_enabled():
        # A view that is made under no_grad still says that it requires grad.
        return tuple(x.detach() for x in out) if isinstance(out, tuple) else out.detach()
    if op.sleep is not None and op.sleep.at == "argument":
        sleep_in_argument(inputs[0], op.sleep, wait)
    if text is None and not op.hooks and op.sleep is None:
        return out
    if isinstance(out, tuple):
        return (_with_hooks(op, out[0], text, wait), *out[1:])
    return _with_hooks(op, out, text, wait)


def _with_hooks(op: Op, out: Tensor, text: str | None, wait: Wait | None) -> Tensor:
    if not out.requires_grad:
        return out
    if KINDS[op.kind].returns_input:
        out = out.view_as(out)
    if text is not None and op.fault == "backward":
        out = raise_in_backward(out, text)
    if text is not None and op.fault == "hook":
        out.register_hook(lambda grad: None if grad is None else _raise(text))
    if op.sleep is not None and op.sleep.at != "argument":
        out = sleep_in_result(out, op.sleep, wait)
    for hook in op.hooks:
        add_hook(out, hook)
    return out


def _raise(text: str) -> None:
    raise PlantedError(text)


# -- leaves ---------------------------------------------------------------------------------------


def initial_values(leaf: Leaf, mode: Mode) -> Tensor:
    """The leaf's tensor as a program starts."""
    count = 1
    for size in leaf.shape:
        count *= size
    numbers = [((i + leaf.seed) * 5 + leaf.seed) % 7 - 3 for i in range(count)]
    if mode == "float":
        values = [1 + n / 6 for n in numbers]
        tensor = torch.tensor(values, dtype=torch.float64).to(DTYPES[leaf.dtype])
        if tensor.is_complex():
            tensor = tensor * (1 + 0.5j)
    else:
        tensor = torch.tensor(numbers, dtype=torch.float64)
    tensor = tensor.reshape(leaf.shape)
    return tensor.requires_grad_(leaf.requires_grad)
