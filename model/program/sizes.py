"""How large the values and derivatives of a program can get, without computing them.

A generator keeps integers below 2**53 with it: for every value an upper bound of its elements
and of its derivatives, which add up the same way however the sums are ordered. Each kind of
operation (model/program/kinds/) has its rule; what several of them need is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from squall.model.program.broadcasting import broadcastable

Shape = tuple[int, ...]


class Size(NamedTuple):
    """Bounds of one value: of each element's magnitude, and of the sum of magnitudes of its
    derivatives by any one element of any earlier value (itself included: at least 1)."""

    shape: Shape
    elements: int
    most: float
    slope: float


#: the sizes of an operation's results from its factor and the sizes of its inputs
SizeRule = Callable[[int, Sequence[Size]], list[Size]]


def size(shape: Shape, most: float, slope: float = 1.0) -> Size:
    """The size of a value of this shape."""
    return Size(shape, numel(shape), most, slope)


def numel(shape: Shape) -> int:
    """How many elements a tensor of this shape has."""
    count = 1
    for length in shape:
        count *= length
    return count


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape that two shapes which broadcast come to."""
    if a == b or not b:
        return a
    if len(a) < len(b):
        a, b = b, a
    shape = list(a)
    for i in range(1, len(b) + 1):
        if a[-i] == 1:
            shape[-i] = b[-i]
    return tuple(shape)


def like(x: Size, shape: Shape, factor: float = 1) -> Size:
    """``x`` times ``factor``, in another shape."""
    return Size(shape, numel(shape), x.most * factor, x.slope * factor + 1)


def summed(x: Size) -> Size:
    """The sum of all elements."""
    return Size((), 1, x.most * x.elements, x.slope * x.elements + 1)


def fitted(x: Size, other: Size) -> Size:
    """``other``, or its sum where it does not broadcast with ``x``."""
    return other if broadcastable(x.shape, other.shape) else summed(other)


def product(a: Size, b: Size) -> Size:
    """``a`` times ``b``, or times its sum where it does not broadcast."""
    b = fitted(a, b)
    return size(
        broadcast(a.shape, b.shape), a.most * b.most, a.most * b.slope + b.most * a.slope + 1
    )


def sum_of_two(factor: int, x: Sequence[Size]) -> list[Size]:
    """The rule of a sum or a difference."""
    a, b = x[0], fitted(x[0], x[1])
    return [size(broadcast(a.shape, b.shape), a.most + b.most, a.slope + b.slope + 1)]


def product_of_two(factor: int, x: Sequence[Size]) -> list[Size]:
    """The rule of a product."""
    return [product(x[0], x[1])]


def scaled(factor: int, x: Sequence[Size]) -> list[Size]:
    """The rule of a multiple."""
    return [like(x[0], x[0].shape, abs(factor))]


def same(factor: int, x: Sequence[Size]) -> list[Size]:
    """The rule of what changes no number."""
    return [x[0]]


def squashed(factor: int, x: Sequence[Size]) -> list[Size]:
    """The rule of a function whose values are between -1 and 1 and whose slope is at most 1."""
    return [Size(x[0].shape, x[0].elements, 1, x[0].slope + 1)]
