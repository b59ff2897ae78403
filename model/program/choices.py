"""Where a generator gets its choices from.

One generator, two drivers: :class:`squall.model.generate.keyed.KeyedChoices` for campaigns, and one
over Hypothesis's ``draw`` for property tests (properties/strategies.py). A choice has a name, which
says what it decides; and a simplest answer, to which Hypothesis shrinks it: an integer to its lower
bound, a choice to the first option, a chance to False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """What a generator may ask. Bounds are inclusive."""

    def integer(self, name: str, lo: int, hi: int) -> int:
        """An integer from ``lo``, the simplest, to ``hi``."""

    def choice(self, name: str, options: Sequence[T]) -> T:
        """One of ``options``, of which the first is the simplest; repeat one to weigh it."""

    def pick(self, name: str, options: Sequence[T]) -> T:
        """As :meth:`choice`, from options that depend on other choices: one more takes its share
        and changes no answer else, where the driver can tell. An option is told by its ``repr``."""

    def some(self, name: str, weights: Mapping[str, int], most: int) -> set[str]:
        """Some of the options: of up to ``most`` draws, in which each has its weight."""

    def chance(self, name: str, probability: float) -> bool:
        """True with about this probability."""

    def group(self, name: str, part: Callable[[], T]) -> T:
        """What ``part`` returns, which makes further choices: those of one part of the whole.

        A driver that shrinks can leave out a group together with one of the count of them.
        """
