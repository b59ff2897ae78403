"""Choices of campaigns: each has a key, and a number of its own that a change can replace.

The key of a choice is where it is made, what it is called, and how often it was asked for there:
``program#0/trainer#0/step#1/op#2/kind#0``. Its number is in [0, 1): what ``changes`` says for the
key, else a hash of the seed and the key. So a program is ``(seed, changes)``: another answer to one
question leaves the answers to all others alone, and a question that a new version of the generator
asks too leaves those to the old ones alone. A change for the key of a group draws everything in
that group anew.

Measured on 3,000 programs: 52 choices a program, 0.1 ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import TypeVar

from squall.model.program.choices import Choices

T = TypeVar("T")

#: by key: a number in [0, 1)
Changes = Mapping[str, float]
NO_CHANGES: Changes = MappingProxyType({})

#: a number has as many bits as a float holds exactly
_BITS = 53
_UNIT = 2.0**-_BITS
_MASK = 2**64 - 1
#: odd numbers with well mixed bits (Steele, Lea and Flood, "Fast splittable pseudorandom number
#: generators", OOPSLA 2014)
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class KeyedChoices(Choices):
    """Choices by ``seed``, which is told by its ``repr``, but for ``changes``.

    Raises ValueError for a change that is no number in [0, 1).
    """

    def __init__(self, seed: object, changes: Changes = NO_CHANGES) -> None:
        for key, number in changes.items():
            if not 0 <= number < 1:
                raise ValueError(f"{key}: {number!r} is no number in [0, 1)")
        self._changes = changes
        self._hash = blake2b(repr(seed).encode(), digest_size=8)
        self._path = ""
        #: by path and name: how often it was asked for before the last time
        self._asked: dict[str, int] = {}

    @property
    def asked(self) -> list[str]:
        """The keys of all choices so far."""
        return [f"{path}#{n}" for path, count in self._asked.items() for n in range(count + 1)]

    def number(self, name: str) -> float:
        """A number in [0, 1)."""
        return self._bits(name) * _UNIT

    def integer(self, name: str, lo: int, hi: int) -> int:
        return lo + int(self._bits(name) * _UNIT * (hi - lo + 1))

    def choice(self, name: str, options: Sequence[T]) -> T:
        return options[int(self._bits(name) * _UNIT * len(options))]

    def pick(self, name: str, options: Sequence[T]) -> T:
        bits = self._bits(name)
        codes = _codes_of(tuple(options))
        most, best = -1, 0
        for at, code in enumerate(codes):
            score = ((bits ^ code) * _MIX_1) & _MASK
            score = ((score ^ (score >> 31)) * _MIX_2) & _MASK
            score ^= score >> 29
            if score > most:
                most, best = score, at
        return options[best]

    def some(self, name: str, weights: Mapping[str, int], most: int) -> set[str]:
        # By a chance each, as great as that of being among so many draws.
        draws = self.integer(f"{name}s", 0, most)
        if not draws:
            return set()
        # One number is drawn for each option, if there are draws at all: cheaper than chance().
        total = sum(weights.values())
        return {
            option
            for option, weight in weights.items()
            if self._bits(f"{name} {option}") * _UNIT < 1 - (1 - weight / total) ** draws
        }

    def chance(self, name: str, probability: float) -> bool:
        return self._bits(name) * _UNIT < probability

    def group(self, name: str, part: Callable[[], T]) -> T:
        outside, seeded = self._path, self._hash
        key = self._key(name)
        if self._changes and (number := self._changes.get(key)) is not None:
            self._hash = seeded.copy()
            self._hash.update(repr(number).encode())
        self._path = f"{key}/"
        try:
            return part()
        finally:
            self._path, self._hash = outside, seeded

    def _key(self, name: str) -> str:
        path = self._path + name
        times = self._asked[path] = self._asked.get(path, -1) + 1
        return f"{path}#{times}"

    def _bits(self, name: str) -> int:
        """The number of the next choice of that name here, as an integer below ``2**53``."""
        # As _key has it, without the call: half of the time of drawing is spent here.
        path, asked = self._path + name, self._asked
        times = asked[path] = asked.get(path, -1) + 1
        key = f"{path}#{times}"
        if self._changes and (number := self._changes.get(key)) is not None:
            return int(number / _UNIT)
        hashed = self._hash.copy()
        hashed.update(key.encode())
        return int.from_bytes(hashed.digest()) >> (64 - _BITS)


@lru_cache(maxsize=4096)
def _codes_of(options: tuple[object, ...]) -> tuple[int, ...]:
    """A number of 64 bits for each option: for one that is there again, another."""
    seen: Counter[object] = Counter()
    codes = []
    for option in options:
        seen[option] += 1
        text = repr((option, seen[option])).encode()
        codes.append(int.from_bytes(blake2b(text, digest_size=8).digest()))
    return tuple(codes)
