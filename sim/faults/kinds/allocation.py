"""Engines that run out of memory."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from squall.model.events.names import ordinal, worker_named
from squall.real.interceptor import Place
from squall.sim.faults.choices import Choices, drawn
from squall.sim.faults.inner import ErrorFault
from squall.sim.faults.limits import Count, Rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation(ErrorFault):
    """The ``nth`` node (from 1) that its engine evaluates cannot allocate its memory."""

    position: ClassVar[int] = 2

    kind: Literal["allocation"] = "allocation"
    worker: Rank
    nth: Count

    def told(self, names: Mapping[int, str]) -> str:
        worker = worker_named(names, self.worker)
        return f"lets the {ordinal(self.nth)} autograd node on {worker} find no memory"

    @property
    def place(self) -> Place:
        return "node"

    @property
    def detail(self) -> object:
        return self.nth

    def error(self) -> Exception:
        import torch  # not at the top: plans are read without it

        return torch.OutOfMemoryError(
            f"injected: can't allocate memory for node {self.nth} of worker {self.worker}"
        )


@drawn("allocation")
def one(choices: Choices, stream: random.Random) -> list[Allocation]:
    return [Allocation(worker=choices.worker(stream), nth=stream.randint(1, 20))]
