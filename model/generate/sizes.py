"""How large the values and derivatives of a program can get, without computing them.

A generator keeps integers below 2**53 with it: for every value an upper bound of its elements
and of its derivatives, which add up the same way however the sums are ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from squall.model.program.operations import broadcastable, expands_to

Shape = tuple[int, ...]


class Size(NamedTuple):
    """Bounds of one value: of each element's magnitude, and of the sum of magnitudes of its
    derivatives by any one element of any earlier value (itself included: at least 1)."""

    shape: Shape
    elements: int
    most: float
    slope: float


def size(shape: Shape, most: float, slope: float = 1.0) -> Size:
    return Size(shape, numel(shape), most, slope)


def numel(shape: Shape) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def _sum(x: Size) -> Size:
    return Size((), 1, x.most * x.elements, x.slope * x.elements + 1)


def _fit(x: Size, other: Size) -> Size:
    return other if broadcastable(x.shape, other.shape) else _sum(other)


def _broadcast(a: Shape, b: Shape) -> Shape:
    if a == b or not b:
        return a
    if len(a) < len(b):
        a, b = b, a
    shape = list(a)
    for i in range(1, len(b) + 1):
        if a[-i] == 1:
            shape[-i] = b[-i]
    return tuple(shape)


def _product(a: Size, b: Size) -> Size:
    b = _fit(a, b)
    return size(
        _broadcast(a.shape, b.shape), a.most * b.most, a.most * b.slope + b.most * a.slope + 1
    )


def _sum_of_two(factor: int, x: Sequence[Size]) -> list[Size]:
    a, b = x[0], _fit(x[0], x[1])
    return [size(_broadcast(a.shape, b.shape), a.most + b.most, a.slope + b.slope + 1)]


def _like(x: Size, shape: Shape, factor: float = 1) -> Size:
    return Size(shape, numel(shape), x.most * factor, x.slope * factor + 1)


def _scaled(factor: int, x: Sequence[Size]) -> list[Size]:
    return [_like(x[0], x[0].shape, abs(factor))]


def _same(factor: int, x: Sequence[Size]) -> list[Size]:
    return [x[0]]


def _matmul(factor: int, x: Sequence[Size]) -> list[Size]:
    a, b = x
    if len(a.shape) == 2 and len(b.shape) == 2 and a.shape[1] == b.shape[0]:
        k = a.shape[1]
        return [
            size(
                (a.shape[0], b.shape[1]),
                k * a.most * b.most,
                k * (a.most * b.slope + b.most * a.slope) + 1,
            )
        ]
    return [_product(a, b)]


def _rows(factor: int, x: Sequence[Size]) -> list[Size]:
    a = x[0]
    return [_like(a, a.shape[1:], max(a.shape[0], 1) if a.shape else 1)]


def _flat(factor: int, x: Sequence[Size]) -> list[Size]:
    return [_like(x[0], (x[0].elements,))]


def _transpose(factor: int, x: Sequence[Size]) -> list[Size]:
    shape = x[0].shape
    return [_like(x[0], shape[::-1] if len(shape) == 2 else shape)]


def _narrow(factor: int, x: Sequence[Size]) -> list[Size]:
    shape = x[0].shape
    return [_like(x[0], (max(shape[0] - 1, 0), *shape[1:]) if shape else shape)]


def _expand(factor: int, x: Sequence[Size]) -> list[Size]:
    return [_like(x[0], (2, *x[0].shape))]


def _cat(factor: int, x: Sequence[Size]) -> list[Size]:
    a, b = x
    return [size((a.elements + b.elements,), max(a.most, b.most), a.slope + b.slope + 1)]


def _split(factor: int, x: Sequence[Size]) -> list[Size]:
    half = x[0].elements // 2
    return [_like(x[0], (half,)), _like(x[0], (x[0].elements - half,))]


def _pair(factor: int, x: Sequence[Size]) -> list[Size]:
    return [_product(x[0], x[1]), _like(x[1], x[1].shape, abs(factor))]


def _mixed(factor: int, x: Sequence[Size]) -> list[Size]:
    return [_like(x[0], x[0].shape, abs(factor)), Size(x[1].shape, x[1].elements, x[1].most, 1)]


def _in_place(factor: int, x: Sequence[Size]) -> list[Size]:
    a, b = x
    if not expands_to(b.shape, a.shape):
        b = _sum(b)
    f = abs(factor)
    return [Size(a.shape, a.elements, 2 * (f * a.most + b.most), 2 * (f * a.slope + b.slope) + 1)]


def _two(factor: int, x: Sequence[Size]) -> list[Size]:
    return [_product(x[0], x[0]), _like(x[1], x[1].shape, abs(factor))]


def _embedding(factor: int, x: Sequence[Size]) -> list[Size]:
    return [_like(x[0], (3, x[0].shape[1]), 2)]


def _squashed(factor: int, x: Sequence[Size]) -> list[Size]:
    return [Size(x[0].shape, x[0].elements, 1, x[0].slope + 1)]


def _total(factor: int, x: Sequence[Size]) -> list[Size]:
    return [
        Size((), 1, sum(a.most * a.elements for a in x), sum(a.slope * a.elements for a in x) + 1)
    ]


#: for each operation: the sizes of its results from its factor and the sizes of its inputs
RULES: dict[str, Callable[[int, Sequence[Size]], list[Size]]] = {
    "scale": _scaled,
    "pass": _same,
    "add": _sum_of_two,
    "mul": lambda factor, x: [_product(x[0], x[1])],
    "sub": _sum_of_two,
    "square": lambda factor, x: [_product(x[0], x[0])],
    "matmul": _matmul,
    "sum": lambda factor, x: [_sum(x[0])],
    "rows": _rows,
    "relu": lambda factor, x: [_like(x[0], x[0].shape)],
    "flat": _flat,
    "transpose": _transpose,
    "narrow": _narrow,
    "expand": _expand,
    "cat": _cat,
    "split": _split,
    "pair": _pair,
    "mixed": _mixed,
    "detach": lambda factor, x: [Size(x[0].shape, x[0].elements, x[0].most, 1)],
    "in_place": _in_place,
    "custom": _scaled,
    "custom_two": _two,
    "custom_half": lambda factor, x: [_product(x[0], x[1])],
    "embedding": _embedding,
    "cast": _same,
    "tanh": _squashed,
    "sigmoid": _squashed,
    "mean": lambda factor, x: [Size((), 1, x[0].most, x[0].slope + 1)],
    "total": _total,
}
