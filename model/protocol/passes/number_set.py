"""Sets of small numbers, as the bits of one: a step costs little also where a run has thousands of
pairs, most of which lead to most others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Numbers:
    """A set of integers from 0 on, which does not change."""

    __slots__ = ("bits",)

    def __init__(self, numbers: Iterable[int] = (), *, bits: int = 0) -> None:
        for number in numbers:
            bits |= 1 << number
        self.bits = bits

    def __contains__(self, number: int) -> bool:
        return bool(self.bits >> number & 1)

    def __iter__(self) -> Iterator[int]:
        digits = f"{self.bits:b}"[::-1]
        at = digits.find("1")
        while at >= 0:
            yield at
            at = digits.find("1", at + 1)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash(self.bits)

    def __le__(self, other: Numbers) -> bool:
        return not self.bits & ~other.bits

    def __and__(self, other: Numbers) -> Numbers:
        return Numbers(bits=self.bits & other.bits)

    def __or__(self, other: Numbers) -> Numbers:
        return Numbers(bits=self.bits | other.bits)

    def __sub__(self, other: Numbers) -> Numbers:
        return Numbers(bits=self.bits & ~other.bits)

    def __repr__(self) -> str:
        return f"Numbers({list(self)})"


NONE = Numbers()
