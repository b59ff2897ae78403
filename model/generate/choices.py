"""Where a generator gets its choices from.

One generator, two drivers: :class:`SeededChoices` for campaigns, and one over Hypothesis's
``draw`` for property tests (properties/strategies.py). A choice has a name, which says what it
decides; and a simplest answer, to which Hypothesis shrinks it: an integer to its lower bound, a
choice to the first option, a chance to False.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """What a generator may ask. Bounds are inclusive."""

    def integer(self, name: str, lo: int, hi: int) -> int:
        """An integer from ``lo``, the simplest, to ``hi``."""

    def choice(self, name: str, options: Sequence[T]) -> T:
        """One of ``options``, of which the first is the simplest; repeat one to weigh it."""

    def chance(self, name: str, probability: float) -> bool:
        """True with about this probability."""

    def group(self, name: str, part: Callable[[], T]) -> T:
        """What ``part`` returns, which makes further choices: those of one part of the whole.

        A driver that shrinks can leave out a group together with one of the count of them.
        """


class SeededChoices:
    """Choices of a pseudo-random generator: fast, and the same for the same seed."""

    def __init__(self, source: random.Random) -> None:
        self._random = source.random

    def integer(self, name: str, lo: int, hi: int) -> int:
        return lo + int(self._random() * (hi - lo + 1))

    def choice(self, name: str, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def chance(self, name: str, probability: float) -> bool:
        return self._random() < probability

    def group(self, name: str, part: Callable[[], T]) -> T:
        return part()
