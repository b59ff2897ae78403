"""Gradients of a script on the engine ``torch`` beside those of one process: of DistributedDataParallel and
FullyShardedDataParallel, whose ranks tell what each had without the others (sim/stock/local_gradients.py,
sim/stock/fsdp_gradients.py), of modules with DTensors and of pipelines, of which the last
rank of a pass is given what all have (sim/stock/gathered.py), and what scripts compare with ``squall.reference``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from squall.model.program.compare import (
    EXACT,
    TOLERANCES,
    Tolerance,
    common_factor,
    compare,
)
from squall.sim.scripts.reference import Comparisons
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.local_gradients import Part
from squall.sim.stock.rounds import Rounds
from squall.sim.stock.worker import NativeWorker

#: what wrappers are told to do that comes to a mean, too
_MEANS = ("", "allreduce_hook", "reduce_scatter_hook")

#: the line, the how manieth pass it is, what is done instead of a mean, and by parameter
Told = tuple[str, int, str, dict[str, Part]]


class OneProcess:
    """Answers what ranks tell."""

    def __init__(self, cluster: NativeCluster) -> None:
        self.comparisons = Comparisons()
        self._rounds: dict[tuple[str, tuple[int, ...]], Rounds[Told]] = {}
        cluster.answers["local gradients"] = self._hear
        cluster.answers["compared"] = lambda _, __, told: self.comparisons.add(*told)
        cluster.answers["not compared"] = lambda _, __, told: self.comparisons.leave_out(*told)
        self._answer = cluster.answer
        self._given: dict[tuple[str, tuple[int, ...]], Rounds[tuple[bytes, str]]] = {}
        cluster.answers["gathered"] = self._gather

    def _hear(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        what, ranks, rank, number, told = rest
        rounds = self._rounds.setdefault((what, ranks), Rounds(len(ranks)))
        rounds.add(number, rank, worker, told)
        for each in rounds.complete():
            self._compare(what, rounds.take(each))

    def _gather(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
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
        parts = {rank: parts for rank, (_, _, _, parts) in told.items()}
        names = [name for name in parts[0] if all(name in each for each in parts.values())]
        if all(hook in _MEANS for hook in hooks):
            deviation, differs = 0.0, []
            for name in dict.fromkeys(name for each in parts.values() for name in each):
                far, text = _apart([each.get(name) for each in parts.values()])
                deviation = max(deviation, far)
                differs += [f"{name} of {where}: {text}"] if text else []
            self.comparisons.add(told[0][0], deviation, differs)
        elif factor := _factor([[each[name] for each in parts.values()] for name in names]):
            text = f"all gradients of {where} are {factor:.4g} times those of one process"
            self.comparisons.add(told[0][0], abs(factor - 1), [text])
        else:
            self.comparisons.leave_out(f"{where}: {', '.join(hooks)} may round them")


def _apart(parts: list[Part | None]) -> tuple[float, str]:
    """How far a gradient is from the mean, and in what it differs on the first rank on which it does."""
    present = [each for each in parts if each is not None]
    mean = np.asarray(sum(each.own for each in present) / len(parts))
    usual, furthest = TOLERANCES.get(present[0].dtype, EXACT), 0.0
    # What cancels out has the rounding errors of what it was.
    largest = max(float(np.max(np.abs(each.own), initial=0.0)) for each in present)
    tolerance = Tolerance(usual.relative, usual.absolute + usual.relative * largest)
    for rank, part in enumerate(parts):
        if part is None:  # of a parameter that this rank has not used
            continue
        if part.got is None:
            if np.any(mean):
                return furthest, f"rank {rank} has no gradient"
            continue
        got, expected = torch.from_numpy(part.got), torch.from_numpy(_of(part, mean))
        found = compare(got, expected, tolerance=tolerance)
        if found.complaint:
            return found.deviation, f"rank {rank}: {found.complaint}"
        furthest = max(furthest, found.deviation)
    return furthest, ""


def _of(part: Part, mean: Any) -> Any:
    """What a rank has of a mean."""
    return mean[part.begin : part.begin + len(part.got)]


def _factor(gradients: list[list[Part]]) -> float | None:
    """What all gradients of all ranks are multiplied with; None if there is no such factor."""
    got = [part.got for parts in gradients for part in parts]
    if not got or any(each is None for each in got):
        return None
    flat = [
        np.asarray(_of(part, sum(each.own for each in parts) / len(parts)))
        for parts in gradients
        for part in parts
    ]
    return common_factor(
        torch.from_numpy(np.concatenate(got)), torch.from_numpy(np.concatenate(flat))
    )
