"""What a campaign has seen of behaviour, how that has grown, and whether more would bring more."""

from __future__ import annotations

from bisect import bisect_right
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
        #: the number of the first scenario that reached a rare situation, by its name
        #: (:mod:`squall.model.coverage.sometimes`)
        self.reached: dict[str, int] = {}

    def add(self, facts: Iterable[int], situations: Iterable[str] = ()) -> list[int]:
        """Count one scenario, and the rare situations that it has reached. Returns the facts that
        are new."""
        self.scenarios += 1
        for name in situations:
            self.reached.setdefault(name, self.scenarios)
        self.times.update(facts)
        new = [fact for fact in facts if fact not in self.first]
        for fact in new:
            self.first[fact] = self.scenarios
        return new

    def counts(self) -> dict[str, int]:
        """How many facts of each set were seen."""
        return _by_set(self.times)

    def growth(self, numbers: Iterable[int] | None = None) -> list[tuple[int, dict[str, int]]]:
        """How many facts of each set were seen after so many scenarios: by default after 1, 2, 5,
        10, 20, … and after all."""
        firsts: dict[str, list[int]] = {name: [] for name in SETS}
        for fact, first in self.first.items():
            firsts[set_of(fact)].append(first)
        for each in firsts.values():
            each.sort()
        return [
            (number, {name: bisect_right(each, number) for name, each in firsts.items()})
            for number in (_round_numbers(self.scenarios) if numbers is None else numbers)
        ]

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
