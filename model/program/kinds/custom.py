"""Operations with a ``torch.autograd.Function`` of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from squall.model.program.broadcasting import fit
from squall.model.program.kind import Kind
from squall.model.program.program import Op
from squall.model.program.sizes import Size, like, product, product_of_two, scaled

_FUNCTION = "custom Function"


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
        results = a * a, b * factor
        ctx.results = [(result.shape, result.dtype) for result in results]
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (a,) = ctx.saved_tensors
        given = [(grad.shape, grad.dtype) for grad in grads]
        if given != ctx.results:  # also of zeros for a result that nobody used
            raise RuntimeError(f"gradients of {given} for results of {ctx.results}")
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


def _custom(op: Op, x: Sequence[Tensor]) -> Tensor:
    return cast(Tensor, _Scale.apply(x[0], op.factor))  # type: ignore[no-untyped-call]


def _two(op: Op, x: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return cast("tuple[Tensor, ...]", _Two.apply(x[0], x[1], op.factor))  # type: ignore[no-untyped-call]


def _two_sizes(factor: int, x: Sequence[Size]) -> list[Size]:
    return [product(x[0], x[0]), like(x[1], x[1].shape, abs(factor))]


def _half(op: Op, x: Sequence[Tensor]) -> Tensor:
    return cast(Tensor, _Half.apply(x[0], fit(x[0], x[1])))  # type: ignore[no-untyped-call]


KINDS = (
    Kind(
        name="custom",
        # A custom function: the input times a factor, which its `backward` knows without a saved tensor.
        run=_custom,
        sizes=scaled,
        features=("custom",),
        rank=60,
        factor="any",
        shows=(_FUNCTION,),
    ),
    Kind(
        name="custom_two",
        # A custom function with two results: the square of the first, for whose gradient it saves a tensor,
        # and the second times a factor.
        run=_two,
        sizes=_two_sizes,
        features=("several outputs",),
        rank=51,
        least=2,
        most=2,
        outputs=2,
        factor="any",
        shows=(_FUNCTION, "custom Function with several outputs"),
    ),
    Kind(
        name="custom_half",
        # A custom function: the product of both, with a gradient for the first factor only.
        run=_half,
        sizes=product_of_two,
        features=("custom",),
        rank=61,
        least=2,
        most=2,
        undefined=True,
        shows=(_FUNCTION, "undefined gradient"),
    ),
)
