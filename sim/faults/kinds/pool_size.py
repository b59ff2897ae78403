"""Agents with few threads, or many."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from squall.model.events.names import worker_named
from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.fault import Ability, Effect, Fault, Group, Injection
from squall.sim.faults.limits import Count, Rank
from squall.sim.faults.on_stock import StockSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize(Fault):
    """Its agent has ``threads`` threads (None as ``worker``: every agent). A function
    that waits keeps its thread: with too few threads, what it waits for is never computed. So
    profiles draw one or two threads only for programs that need no more."""

    group: ClassVar[Group] = "inner"
    position: ClassVar[int] = 1
    needs: ClassVar[tuple[Ability, ...]] = ("inside",)

    kind: Literal["pool_size"] = "pool_size"
    worker: Rank | None = None
    threads: Count

    def told(self, names: Mapping[int, str]) -> str:
        who = "every worker" if self.worker is None else worker_named(names, self.worker)
        count = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"gives {who} {count} for calls"

    def on_stock(self, settings: StockSettings) -> str | None:
        settings.threads[self.worker] = self.threads
        return ""

    def at_work(self, name: str, injection: Injection) -> Effect[Any]:
        return _Sized(self, name, injection)


class _Sized(Effect[PoolSize]):
    def threads(self, rank: int, default: int) -> int:
        if self.item.worker not in (None, rank):
            return default
        self.report(rank, self.item.threads)
        return self.item.threads


@drawn("pool size")
def one(choices: Choices, stream: random.Random) -> list[PoolSize]:
    worker = stream.choice((None, choices.worker(stream)))
    # With fewer, functions that wait for a value of their own worker keep its creation out for
    # ever: PyTorch's documented limit of a pool that nested calls exhaust.
    least = choices.least_pool
    sizes = (1, 1, 2, 3) if least == 1 else (least, least + 1, least + 3)
    return [PoolSize(worker=worker, threads=stream.choice(sizes))]
