"""What several ranks tell of the same thing again and again: compared when all have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from squall.sim.stock.worker import NativeWorker

T = TypeVar("T")


@dataclass
class Rounds(Generic[T]):
    """``size``: how many ranks tell."""

    size: int
    #: by number, until it is taken: what each rank told
    told: dict[int, dict[int, T]] = field(default_factory=dict)
    #: by rank, its process, and the number that it told last
    workers: dict[int, NativeWorker] = field(default_factory=dict)
    latest: dict[int, int] = field(default_factory=dict)

    def add(self, number: int, rank: int, worker: NativeWorker, told: T) -> bool:
        """Whether everything before is forgotten, since ranks have been started again."""
        again = self.workers.setdefault(rank, worker) is not worker
        if again:
            self.workers = {rank: worker}
            self.told, self.latest = {}, {}
        self.told.setdefault(number, {})[rank] = told
        self.latest[rank] = number
        return again

    def complete(self) -> list[int]:
        """The numbers of which all have told."""
        return sorted(n for n, told in self.told.items() if len(told) == self.size)

    def take(self, number: int) -> dict[int, T]:
        """What was told of it, by rank; nothing before it is asked for any more."""
        told = self.told[number]
        self.told = {n: each for n, each in self.told.items() if n > number}
        return dict(sorted(told.items()))
