"""What a campaign has seen of behaviour, how that has grown, and whether more would bring more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import count

from squall.model.coverage.behaviour import SETS, set_of


class Seen:
    """Facts that scenarios showed (:mod:`squall.model.coverage.behaviour`)."""

    def __init__(self) -> None:
        self.scenarios = 0
        #: of each fact: in how many scenarios it was seen, and the number of the first, from 1
        self.times: Counter[int] = Counter()
        self.first: dict[int, int] = {}

    def add(self, facts: Iterable[int]) -> list[int]:
        """Count one scenario. Returns the facts that are new."""
        self.scenarios += 1
        self.times.update(facts)
        new = [fact for fact in facts if fact not in self.first]
        for fact in new:
            self.first[fact] = self.scenarios
        return new

    def counts(self) -> dict[str, int]:
        """How many facts of each set were seen."""
        return _by_set(self.times)

    def growth(self) -> list[tuple[int, dict[str, int]]]:
        """How many facts of each set were seen after 1, 2, 5, 10, 20, … scenarios, and after all."""
        found = []
        for number in _round_numbers(self.scenarios):
            seen = (fact for fact, first in self.first.items() if first <= number)
            found.append((number, _by_set(seen)))
        return found

    def to_come(self, scenarios: int) -> dict[str, float]:
        """How many new facts of each set that many more scenarios can be expected to show, at most.

        By Good and Turing: a scenario shows as many new facts as there are facts that only one of
        those before it has shown, divided by their number. It falls from there.
        """
        once = _by_set(fact for fact, times in self.times.items() if times == 1)
        return {name: scenarios * n / max(1, self.scenarios) for name, n in once.items()}


def _by_set(facts: Iterable[int]) -> dict[str, int]:
    counts = Counter(map(set_of, facts))
    return {name: counts[name] for name in SETS}


def _round_numbers(last: int) -> Iterable[int]:
    for power in count():
        for digit in (1, 2, 5):
            number = digit * 10**power
            if number >= last:
                if last:
                    yield last
                return
            yield number
