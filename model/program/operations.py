"""The operations of programs: what each computes, with plain torch.

Both interpreters use this table. Every operation takes tensors of any shape and dtype: where two
do not fit together, the second one's sum takes its place; so a program stays meaningful
when a part of it is cut out or changed. Every result is a tensor of its own, that hooks can be
put on without meaning an input as well, except that of ``pass``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional

from squall.model.program.hooks import add_hook
from squall.model.program.program import Leaf, Mode, Op

Value = Tensor | tuple[Tensor, ...]
Run = Callable[[Op, Sequence[Tensor]], Value]

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "complex64": torch.complex64,
}


class PlantedError(RuntimeError):
    """An error that the program asked for."""


class Kind(NamedTuple):
    """An operation: how many inputs it takes (at most ``MANY``), and how many outputs it has.

    ``cuts``: which inputs each output has no gradient for, as pairs (output, input). ``exact``:
    whether integers stay integers, in both directions. ``builtin``: the operator of torch that
    computes the same, if there is one, from its arguments.
    """

    run: Run
    least: int = 1
    most: int = 1
    outputs: int = 1
    cuts: frozenset[tuple[int, int]] = frozenset()
    exact: bool = True
    builtin: Callable[..., Any] | None = None


MANY = 1000


# -- fitting things together ------------------------------------------------------------------


def broadcastable(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether shapes ``a`` and ``b`` broadcast."""
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if x != y and x != 1 and y != 1:
            return False
    return True


def expands_to(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether shape ``a`` broadcasts to ``b`` itself."""
    return len(a) <= len(b) and all(
        x in (1, y) for x, y in zip(reversed(a), reversed(b), strict=False)
    )


def real(x: Tensor) -> Tensor:
    """A real tensor of the same shape; of a complex number the sum of its parts."""
    # By one edge, so that a program of few operations has few edges too.
    return (x * (1 - 1j)).real if x.is_complex() else x


def fit(x: Tensor, other: Tensor) -> Tensor:
    """``other``, or its sum where it does not broadcast with ``x``."""
    return other if broadcastable(x.shape, other.shape) else other.sum()


def fit_into(x: Tensor, other: Tensor) -> Tensor:
    """``other`` so that it can be added to ``x`` in place."""
    if other.dtype != x.dtype:
        other = real(other).sum().to(x.dtype)
    return other if expands_to(other.shape, x.shape) else other.sum()


def total(tensors: Sequence[Tensor]) -> Tensor:
    """The real scalar sum of all elements of all tensors."""
    result = real(tensors[0]).sum()
    for tensor in tensors[1:]:
        result = result + real(tensor).sum()
    return result


def join(out: Value, x: Tensor) -> Value:
    """The result with the sum of ``x`` added to (the first of) it: what relay ``join`` returns."""
    if isinstance(out, tuple):
        return (out[0] + total((x,)), *out[1:])
    return out + total((x,))


# -- custom functions ---------------------------------------------------------------------------


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int) -> Tensor:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


class _Two(torch.autograd.Function):
    """Two outputs of one node: one with a saved tensor, the other without."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, factor: int) -> tuple[Tensor, Tensor]:
        ctx.factor = factor
        ctx.save_for_backward(a)
        return a * a, b * factor

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (a,) = ctx.saved_tensors
        return grads[0] * 2 * a.conj(), grads[1] * ctx.factor, None


class _Half(torch.autograd.Function):
    """The product, with a gradient for the first factor only."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(b)
        ctx.shape = a.shape
        ctx.dtype = a.dtype
        return a * b

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (b,) = ctx.saved_tensors
        product = grad * b.conj()
        if product.is_complex() and not ctx.dtype.is_complex:
            product = product.real
        return product.sum_to_size(ctx.shape).to(ctx.dtype), None


class _Raise(torch.autograd.Function):
    """The identity, until a gradient comes."""

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


# -- the table ------------------------------------------------------------------------------------


def _add(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0] + fit(x[0], x[1])


def _matmul(op: Op, x: Sequence[Tensor]) -> Tensor:
    a, b = x
    if a.dim() == 2 and b.dim() == 2 and a.shape[1] == b.shape[0] and a.dtype == b.dtype:
        return a @ b
    return a * fit(a, b)


def _rows(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0].sum(0) if x[0].dim() else x[0] * 1


def _transpose(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0].t() if x[0].dim() == 2 else x[0].view_as(x[0])


def _narrow(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0][1:] if x[0].dim() else x[0].view_as(x[0])


def _expand(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0].expand(2, *x[0].shape)


def _cat(op: Op, x: Sequence[Tensor]) -> Tensor:
    return torch.cat([x[0].reshape(-1), x[1].reshape(-1)])


def _split(op: Op, x: Sequence[Tensor]) -> tuple[Tensor, ...]:
    flat = x[0].reshape(-1)
    half = flat.shape[0] // 2
    return tuple(flat.split([half, flat.shape[0] - half]))


def _pair(op: Op, x: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return x[0] * fit(x[0], x[1]), x[1] * op.factor


def _mixed(op: Op, x: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return x[0] * op.factor, x[1].detach().clone()


def _in_place(op: Op, x: Sequence[Tensor]) -> Tensor:
    result = x[0].clone()
    result.mul_(op.factor)
    result.add_(fit_into(result, x[1]))
    if result.dim() and result.shape[0]:
        first = result[0]
        first.mul_(2)
    return result


def _two(op: Op, x: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return cast("tuple[Tensor, ...]", _Two.apply(x[0], x[1], op.factor))  # type: ignore[no-untyped-call]


def _half(op: Op, x: Sequence[Tensor]) -> Tensor:
    return cast(Tensor, _Half.apply(x[0], fit(x[0], x[1])))  # type: ignore[no-untyped-call]


def _embedding(op: Op, x: Sequence[Tensor]) -> Tensor:
    indices = torch.tensor(lookups(op.factor, x[0].shape[0]))
    return functional.embedding(indices, x[0], sparse=True)


def lookups(factor: int, rows: int) -> list[int]:
    """The rows that an embedding looks up; one of them twice."""
    return [factor % rows, (factor + 1) % rows, factor % rows]


def _cast(op: Op, x: Sequence[Tensor]) -> Tensor:
    dtype = DTYPES[op.dtype]
    if x[0].is_complex() and not dtype.is_complex:
        return real(x[0]).to(dtype)
    return x[0].to(dtype) if x[0].dtype != dtype else x[0].view_as(x[0])


def _mean(op: Op, x: Sequence[Tensor]) -> Tensor:
    return x[0].mean() if x[0].numel() else x[0].sum()


def _real_tanh(op: Op, x: Sequence[Tensor]) -> Tensor:
    return torch.tanh(real(x[0]))


def _real_sigmoid(op: Op, x: Sequence[Tensor]) -> Tensor:
    return torch.sigmoid(real(x[0]))


KINDS: dict[str, Kind] = {
    "scale": Kind(lambda op, x: x[0] * op.factor, builtin=torch.mul),
    "pass": Kind(lambda op, x: x[0]),
    "add": Kind(_add, 2, 2, builtin=torch.add),
    "mul": Kind(lambda op, x: x[0] * fit(x[0], x[1]), 2, 2, builtin=torch.mul),
    "sub": Kind(lambda op, x: x[0] - fit(x[0], x[1]), 2, 2, builtin=torch.sub),
    "square": Kind(lambda op, x: x[0] * x[0]),
    "matmul": Kind(_matmul, 2, 2),
    "sum": Kind(lambda op, x: x[0].sum(), builtin=torch.sum),
    "rows": Kind(_rows),
    "relu": Kind(lambda op, x: torch.relu(real(x[0]))),
    "flat": Kind(lambda op, x: x[0].reshape(-1)),
    "transpose": Kind(_transpose),
    "narrow": Kind(_narrow),
    "expand": Kind(_expand),
    "cat": Kind(_cat, 2, 2),
    "split": Kind(_split, outputs=2),
    "pair": Kind(_pair, 2, 2, outputs=2, cuts=frozenset({(1, 0)})),
    "mixed": Kind(_mixed, 2, 2, outputs=2, cuts=frozenset({(0, 1), (1, 0), (1, 1)})),
    "detach": Kind(lambda op, x: x[0].detach().clone(), cuts=frozenset({(0, 0)})),
    "in_place": Kind(_in_place, 2, 2),
    "custom": Kind(
        lambda op, x: cast(Tensor, _Scale.apply(x[0], op.factor))  # type: ignore[no-untyped-call]
    ),
    "custom_two": Kind(_two, 2, 2, outputs=2),
    "custom_half": Kind(_half, 2, 2),
    "embedding": Kind(_embedding),
    "cast": Kind(_cast, exact=False),
    "tanh": Kind(_real_tanh, exact=False),
    "sigmoid": Kind(_real_sigmoid, exact=False),
    "mean": Kind(_mean, exact=False),
    "total": Kind(lambda op, x: total(x), 1, MANY),
}

#: operations whose one result is a real scalar with a ``grad_fn``: what backward can start from
ROOTS = frozenset({"total"})


def planted(where: str, trainer: int, step: int, op: int) -> str:
    """The text of the error that a fault of an operation raises."""
    return f"planted in the {where} of trainers[{trainer}].steps[{step}].ops[{op}]"


def compute(op: Op, inputs: Sequence[Tensor], *, text: str | None = None) -> Value:
    """What the operation makes of its inputs, hooks and all.

    ``text``: of the error that its fault raises; None: it has no fault (or no more).
    """
    if text is not None and op.fault == "udf":
        raise PlantedError(text)
    out = KINDS[op.kind].run(op, inputs)
    if not torch.is_grad_enabled():
        # A view that is made under no_grad still claims to require grad.
        return tuple(x.detach() for x in out) if isinstance(out, tuple) else out.detach()
    if text is None and not op.hooks:
        return out
    if isinstance(out, tuple):
        return (_with_hooks(op, out[0], text), *out[1:])
    return _with_hooks(op, out, text)


def _with_hooks(op: Op, out: Tensor, text: str | None) -> Tensor:
    if not out.requires_grad:
        return out
    if op.kind == "pass":
        out = out.view_as(out)
    if text is not None and op.fault == "backward":
        out = raise_in_backward(out, text)
    if text is not None and op.fault == "hook":
        out.register_hook(lambda grad: None if grad is None else _raise(text))
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
