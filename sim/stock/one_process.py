"""Gradients of a script on the engine ``torch`` beside those of one process: of DistributedDataParallel and
FullyShardedDataParallel, whose ranks tell what each had without the others (sim/stock/local_gradients.py,
sim/stock/fsdp_gradients.py), of modules with DTensors and of pipelines, of which the last
rank of a pass is given what all have (sim/stock/gathered.py), and what scripts compare with ``squall.reference``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from squall.sim.scripts.reference import Comparisons
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.gathered import Gradient, compared
from squall.sim.stock.local_gradients import ParameterPart
from squall.sim.stock.rounds import Rounds
from squall.sim.stock.worker import NativeWorker

#: what wrappers are told to do that comes to a mean, too
_MEANS = ("", "allreduce_hook", "reduce_scatter_hook")

#: the line, the how manieth pass it is, what is done instead of a mean, and by parameter
Told = tuple[str, int, str, dict[str, ParameterPart]]


class OneProcess:
    """Answers what ranks tell."""

    def __init__(self, cluster: NativeCluster) -> None:
        self.comparisons = Comparisons()
        self._rounds: dict[tuple[str, tuple[int, ...]], Rounds[Told]] = {}
        cluster.answers["local gradients"] = self._hear
        cluster.answers["compared"] = lambda _, __, *told: self.comparisons.add(*told)
        cluster.answers["not compared"] = lambda _, __, *told: self.comparisons.leave_out(*told)
        self._answer = cluster.answer
        self._given: dict[tuple[str, tuple[int, ...]], Rounds[tuple[bytes, str]]] = {}
        cluster.answers["gathered"] = self._gather

    def _hear(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        what, ranks, rank, number, told = rest
        rounds = self._rounds.setdefault((what, ranks), Rounds(len(ranks)))
        rounds.add(number, rank, worker, told)
        for each in rounds.complete():
            self._compare(what, rounds.take(each))

    def _gather(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        """The last rank of a pass is answered with what all have given, or why that is nothing."""
        what, ranks, rank, number, data, why_not = rest
        rounds = self._given.setdefault((what, ranks), Rounds(len(ranks)))
        rounds.add(number, rank, worker, (data, why_not))
        answer: dict[int, bytes] | str | None = None
        if number in rounds.complete():
            given = rounds.take(number)
            reasons = [each for _, each in given.values() if each]
            answer = reasons[0] if reasons else {key: each for key, (each, _) in given.items()}
        self._answer(worker, question, answer)

    def _compare(self, what: str, told: dict[int, Told]) -> None:
        """Of one backward pass."""
        where = f"{what}, backward pass {told[0][1]}"
        hooks = dict.fromkeys(hook for _, _, hook, _ in told.values())
        found = compared([*_gradients(where, [parts for _, _, _, parts in told.values()])])
        if all(hook in _MEANS for hook in hooks):
            self.comparisons.add(told[0][0], found.deviation, found.differs)
        elif found.factor is not None:
            text = f"all gradients of {where} are {found.factor:.4g} times those of one process"
            self.comparisons.add(told[0][0], abs(found.factor - 1), [text])
        else:
            self.comparisons.leave_out(f"{where}: {', '.join(hooks)} may round them")


def _gradients(where: str, parts: list[dict[str, ParameterPart]]) -> Iterator[Gradient]:
    """Those of all ranks, beside the mean of what each has alone."""
    for name in dict.fromkeys(name for each in parts for name in each):
        # A rank that has not used a parameter has nothing of it.
        present = {rank: each[name] for rank, each in enumerate(parts) if name in each}
        mean = np.asarray(sum(each.own for each in present.values()) / len(parts))
        largest = max(float(np.max(np.abs(each.own), initial=0.0)) for each in present.values())
        for rank, part in present.items():
            got, expected = None, mean
            if part.got is not None:
                got = torch.from_numpy(part.got)
                expected = mean[part.begin : part.begin + len(part.got)]
            about = f"{name} of {where}", rank, got, torch.from_numpy(expected)
            yield Gradient(*about, largest, part.dtype)
