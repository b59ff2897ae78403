"""How likely a failure would have shown again: what clean scenarios say of a fix.

A failure was found in ``k`` of ``n`` scenarios, and then in none of ``m`` others. Had nothing
changed, the ``n + m`` scenarios would be alike, and which of them fail a matter of chance: all ``k``
are among the first ``n`` with the probability

    C(n, k) / C(n + m, k)  =  n/(n+m) · (n-1)/(n+m-1) · … · (n-k+1)/(n+m-k+1)

whatever the rate of failures is. (It is the level of Fisher's exact test. Who holds every order of
magnitude of the rate for equally likely beforehand, a density of 1/p, believes in Beta(k, n-k+1)
after the campaign, and comes to the same number.) The rest is the chance that it would have shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

#: a fix is believed when the failure would have shown again with this chance
BELIEVED = 0.999
#: the share of cases in which an interval holds the true value
INTERVAL = 0.95
_HALVINGS = 60


class Sample(NamedTuple):
    """``failed`` of ``scenarios`` that are alike."""

    failed: int = 0
    scenarios: int = 0

    def missed(self, clean: int) -> float:
        """The chance that none of ``clean`` more scenarios fails, if these are like the others."""
        return math.prod(
            (self.scenarios - i) / (self.scenarios + clean - i) for i in range(self.failed)
        )

    def rate_limits(self, level: float = INTERVAL) -> tuple[float, float]:
        """Between which rates of failures the true one is, by Clopper and Pearson.

        ``level``: the share of such intervals that hold it, at least.
        """
        if not self.scenarios:
            return 0.0, 1.0
        tail = (1 - level) / 2
        most = _most(self.failed, self.scenarios, tail)
        least = 1 - _most(self.scenarios - self.failed, self.scenarios, tail)
        return least, most


@dataclass(frozen=True)
class Confidence:
    """What clean scenarios say of a failure that was found before.

    Scenarios come in kinds that are not like each other (fresh seeds, those of a cover, other
    schedules of one program), each with what was ``found`` in it and how many were ``clean`` since.
    """

    found: Mapping[str, Sample]
    clean: Mapping[str, int]

    @property
    def missed(self) -> float:
        """The chance that it would not have shown, though nothing has changed."""
        return math.prod(found.missed(self.clean.get(kind, 0)) for kind, found in self._known)

    @property
    def chance(self) -> float:
        """The chance that it would have shown again."""
        return 1 - self.missed

    @property
    def believed(self) -> bool:
        return self.missed <= 1 - BELIEVED

    @property
    def limits(self) -> tuple[float, float]:
        """Least and largest chance for rates in their 95 % intervals (all of them at a time)."""
        known = [(found, self.clean.get(kind, 0)) for kind, found in self._known]
        level = 1 - (1 - INTERVAL) / max(1, len(known))
        missed = [1.0, 1.0]
        for found, clean in known:
            for at, rate in enumerate(found.rate_limits(level)):
                missed[at] *= (1 - rate) ** clean
        return 1 - missed[0], 1 - missed[1]

    @property
    def progress(self) -> float:
        """How far it is to belief, from 0 to 1: equal steps divide the chance to miss alike."""
        return 1.0 if self.believed else math.log(self.missed) / math.log(1 - BELIEVED)

    def needed(self, kind: str) -> int | None:
        """How many more clean scenarios of one kind make it believed; None if no number does."""
        found, clean = self.found.get(kind, Sample()), self.clean.get(kind, 0)
        if self.believed:
            return 0
        if not found.failed:
            return None
        goal = (1 - BELIEVED) * found.missed(clean) / self.missed
        least, most = 0, 1
        while found.missed(clean + most) > goal:
            least, most = most, 2 * most
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (
                (least, middle) if found.missed(clean + middle) <= goal else (middle, most)
            )
        return most

    @property
    def _known(self) -> list[tuple[str, Sample]]:
        return [(kind, found) for kind, found in self.found.items() if found.failed]


def _most(failed: int, scenarios: int, tail: float) -> float:
    """The rate at which so few fail, or fewer, with the chance ``tail`` only."""
    if failed >= scenarios:
        return 1.0
    least, most = failed / scenarios, 1.0
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        if _at_most(failed, scenarios, middle) > tail:
            least = middle
        else:
            most = middle
    return most


def _at_most(failed: int, scenarios: int, rate: float) -> float:
    """The chance that of so many scenarios at most ``failed`` fail; ``rate`` above their share."""
    if rate >= 1:
        return 0.0
    term = math.exp(
        math.lgamma(scenarios + 1)
        - math.lgamma(failed + 1)
        - math.lgamma(scenarios - failed + 1)
        + failed * math.log(rate)
        + (scenarios - failed) * math.log1p(-rate)
    )
    total = 0.0
    for number in range(failed, -1, -1):
        total += term
        if term < 1e-15 * total:
            break
        term *= number * (1 - rate) / ((scenarios - number + 1) * rate)
    return total
