"""What a campaign plays: parts with seeds of their own, cut into leases, in an order that is fixed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import NamedTuple

import torch

from squall.sim.names import PROFILES, EngineName, Profile
from squall.sim.search.draw import Settings
from squall.sim.search.proving import code_stamp

#: seeds of a lease
SIZE = 200
#: the last seed: SQLite's integers have a sign
MOST = 2**63 - 1


@dataclass(frozen=True)
class Part:
    """Seeds that are drawn and run in the same way."""

    name: str
    seeds: range
    profile: Profile | None = None
    engine: EngineName = "port"

    @property
    def settings(self) -> Settings:
        return Settings(self.profile, engine=self.engine)

    def __str__(self) -> str:
        faults = self.profile or "no faults"
        return f"{self.name} {self.seeds.start}:{self.seeds.stop} ({faults}, {self.engine})"

    @classmethod
    def read(cls, text: str) -> Part:
        """What ``str()`` has written."""
        name, seeds, rest = text.split(" ", 2)
        first, stop = map(int, seeds.split(":"))
        faults, engine = rest.strip("()").rsplit(", ", 1)
        profile = next((each for each in PROFILES if each == faults), None)
        return cls(name, range(first, stop), profile, "torch" if engine == "torch" else "port")


class Lease(NamedTuple):
    """Some seeds of a part, judged in one process. ``number``: which of the whole plan it is."""

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
                seeds = range(first, min(first + self.size, part.seeds.stop))
                yield Lease(part, seeds, number)

    def _leases(self, at: int, part: Part) -> Iterator[tuple[float, int, int]]:
        for first in range(part.seeds.start, part.seeds.stop, self.size):
            yield (first - part.seeds.start) / len(part.seeds), at, first

    @property
    def scenarios(self) -> int:
        """How many there are in the share."""
        if self.of == 1:
            return sum(len(part.seeds) for part in self.parts)
        return sum(len(lease.seeds) for lease in self.leases())

    @property
    def whole(self) -> Plan:
        """All shares together."""
        return replace(self, index=0, of=1)

    @classmethod
    def read(cls, said: dict[str, str]) -> Plan:
        """The whole plan that :meth:`said` is of."""
        parts = tuple(Part.read(text) for text in said["parts"].split("; "))
        return cls(parts, int(said["lease"].split()[0]))

    def said(self) -> dict[str, str]:
        """What decides the verdicts, in words: the plan, and the code that plays it."""
        return {
            "parts": "; ".join(map(str, self.parts)),
            "lease": f"{self.size} seeds",
            "share": f"{self.index} of {self.of}",
            "scenarios": str(self.whole.scenarios),
            **versions(),
        }


def versions() -> dict[str, str]:
    """What decides, besides the scenario, what a run comes to; the last is a hash over squall."""
    return {"squall": version("squall"), "torch": torch.__version__, "code": code_stamp()}
