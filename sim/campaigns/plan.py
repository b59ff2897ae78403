"""What a campaign plays: parts with numbers of their own, cut into leases, in an order that is fixed."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from squall.sim.campaigns.parts import Part

#: seeds of a lease
SIZE = 200
#: the last seed: SQLite's integers have a sign
MOST = 2**63 - 1


class Lease(NamedTuple):
    """Some numbers of a part, judged in one process. ``number``: which of the whole plan it is."""

    part: Part
    seeds: range
    number: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from all others of the campaign."""
        return self.part.name, self.seeds.start

    def __str__(self) -> str:
        return f"{self.part.name} {self.seeds.start}:{self.seeds.stop}"


@dataclass(frozen=True)
class Plan:
    """``parts``: each with a name of its own. ``index``, ``of``: which of so many shares is played."""

    parts: tuple[Part, ...]
    size: int = SIZE
    index: int = 0
    of: int = 1

    def leases(self) -> Iterator[Lease]:
        """Those of the share, one at a time, so that their number takes no memory. The parts go
        on at the same pace: what ends early has played something of each."""
        whole = heapq.merge(*(self._leases(at, part) for at, part in enumerate(self.parts)))
        for number, (_, at, first) in enumerate(whole):
            if number % self.of == self.index:
                part = self.parts[at]
                seeds = range(first, min(first + self._size(part), part.seeds.stop))
                yield Lease(part, seeds, number)

    def _leases(self, at: int, part: Part) -> Iterator[tuple[float, int, int]]:
        for first in range(part.seeds.start, part.seeds.stop, self._size(part)):
            yield (first - part.seeds.start) / len(part.seeds), at, first

    def _size(self, part: Part) -> int:
        """Numbers of a lease."""
        most = part.most_of_lease
        return self.size if most is None else min(self.size, most)

    def counts(self) -> dict[Part, int]:
        """How many numbers of each part there are in the share."""
        if self.of == 1:
            return {part: len(part.seeds) for part in self.parts}
        counts = dict.fromkeys(self.parts, 0)
        for lease in self.leases():
            counts[lease.part] += len(lease.seeds)
        return counts

    @property
    def scenarios(self) -> int:
        """How many there are in the share."""
        return sum(self.counts().values())

    @property
    def whole(self) -> Plan:
        """All shares together."""
        return replace(self, index=0, of=1)

    @classmethod
    def read(cls, said: dict[str, str]) -> Plan:
        """The whole plan that :meth:`said` is of."""
        from squall.sim.campaigns.parts import part_of

        parts = tuple(map(part_of, json.loads(said["parts"])))
        return cls(parts, int(said["lease"].split()[0]))

    def said(self) -> dict[str, str]:
        """What decides the verdicts, in words: the plan, and the code that plays it."""
        return {
            "parts": json.dumps([part.said() for part in self.parts]),
            "lease": f"{self.size} seeds",
            "share": f"{self.index} of {self.of}",
            "scenarios": str(self.whole.scenarios),
            **versions(),
        }


def versions() -> dict[str, str]:
    """What decides, besides the scenario, what a run comes to; the last is a hash over squall."""
    import torch

    from squall.sim.search.verify_fix import code_stamp

    return {"squall": version("squall"), "torch": torch.__version__, "code": code_stamp()}
