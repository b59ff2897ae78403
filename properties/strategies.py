"""Programs for Hypothesis: the generator of campaigns, driven by ``draw``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import squall.sim.programs.stories.play  # noqa: F401  registers the stories that programs have
from squall.model.generate.generator import generate
from squall.model.generate.profiles import Limits
from squall.model.program.choices import Choices
from squall.model.program.program import Program

T = TypeVar("T")


class HypothesisChoices(Choices):
    """Choices that Hypothesis makes, replays and shrinks."""

    def __init__(self, draw: Callable[[SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def integer(self, name: str, lo: int, hi: int) -> int:
        # Drawn even if there is only one: parts that make equally many choices can be cut out.
        return self._draw(_integers(lo, hi))

    def choice(self, name: str, options: Sequence[T]) -> T:
        return options[self.integer(name, 0, len(options) - 1)]

    def pick(self, name: str, options: Sequence[T]) -> T:
        return self.choice(name, options)

    def some(self, name: str, weights: Mapping[str, int], most: int) -> set[str]:
        options = [option for option, weight in weights.items() for _ in range(weight)]
        return {self.choice(name, options) for _ in range(self.integer(f"{name}s", 0, most))}

    def chance(self, name: str, probability: float) -> bool:
        # The larger numbers say True, so that it shrinks to False.
        return self._draw(_integers(0, 99)) >= 100 - round(100 * probability)

    def group(self, name: str, part: Callable[[], T]) -> T:
        # What is drawn inside of a drawn strategy is a span, and the shrinker cuts out spans.
        return self._draw(_group(part))


@st.composite
def _group(draw: Callable[[SearchStrategy[Any]], Any], part: Callable[[], T]) -> T:
    draw(st.none())  # Hypothesis wants to see its draw used; the part uses the one outside
    return part()


_INTEGERS: dict[tuple[int, int], SearchStrategy[int]] = {}


def _integers(lo: int, hi: int) -> SearchStrategy[int]:
    found = _INTEGERS.get((lo, hi))
    if found is None:
        found = _INTEGERS[lo, hi] = st.integers(lo, hi)
    return found


@st.composite
def programs(draw: Callable[[SearchStrategy[Any]], Any], limits: Limits | None = None) -> Program:
    """Programs as campaigns draw them; they shrink to one operation on one worker."""
    return generate(HypothesisChoices(draw), limits)
