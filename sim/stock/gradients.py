"""Gradients of a script on PyTorch's compiled engine, compared with the port's run of it.

The compiled engine shows no graph, so its gradients have no single-process reference of their own.
The port runs the same script with the same seed, its gradients are compared with a single process
as they come, and the compiled engine's are compared with those: pass by pass, by context and
worker. Leaves have no names that both engines know: among leaves of one shape those with the
nearest values are matched.
"""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from torch import Tensor

from squall.model.one_process.reference import MAX_DESCRIBED, GradientSummary
from squall.model.program.compare import Comparison, compare
from squall.sim.faults.plan import NO_FAULTS
from squall.sim.scenario import Scenario
from squall.sim.scripts.run import run_script as run_on_port

#: gradients after one pass, by worker
Found = dict[int, list[Tensor]]
#: by context: each of its passes, in the order of their ends
Passes = dict[int, list[Found]]

#: another seed: gradients that differ with it depend on the order of messages
_OTHER_SEED = 1_000_003


@dataclass
class PassLog:
    """The passes of a run that returned, and how many raised."""

    passes: Passes = field(default_factory=dict)
    failed: int = 0

    def add(self, context: int, found: Mapping[int, list[Tensor]]) -> None:
        kept = {worker: grads for worker, grads in sorted(found.items()) if grads}
        self.passes.setdefault(context, []).append(kept)

    def __len__(self) -> int:
        return sum(len(each) for each in self.passes.values())


def summarise(scenario: Scenario, log: PassLog) -> GradientSummary:
    """How the gradients in ``log`` compare with the port's run of the same scenario.

    A pass is not comparable if the port does not come to it, has no reference for it, or comes to
    other gradients itself when messages arrive in another order.
    """
    if not len(log):
        return GradientSummary(0, 0, log.failed, 0.0, [], [])
    expected, why = _port(scenario, scenario.seed)
    compared, largest = 0, 0.0
    not_comparable: list[str] = []
    mismatches: list[str] = []
    other: Passes | None = None
    for context, number, found in _numbered(log.passes):
        where = f"context {context}, pass {number + 1}"
        ours = _at(expected, context, number)
        if ours is None:
            not_comparable.append(f"{where}: {why or 'the port does not come to it'}")
            continue
        deviation, complaints = _compare(found, ours)
        if complaints:
            if other is None:
                other, _ = _port(scenario, scenario.seed + _OTHER_SEED)
            again = _at(other, context, number)
            if again is None or _compare(again, ours)[1]:
                not_comparable.append(f"{where}: it depends on the order of messages")
                continue
        compared += 1
        largest = max(largest, deviation)
        mismatches += [f"{where}, {complaint}" for complaint in complaints]
    if len(mismatches) > MAX_DESCRIBED:
        more = len(mismatches) - MAX_DESCRIBED
        mismatches = [*mismatches[:MAX_DESCRIBED], f"… and {more} more"]
    return GradientSummary(
        passes=len(log),
        compared=compared,
        failed=log.failed,
        max_deviation=largest,
        not_comparable=not_comparable,
        mismatches=mismatches,
    )


def _port(scenario: Scenario, seed: int) -> tuple[Passes, str | None]:
    """The port's passes, and why there may be fewer than the script has."""
    log = PassLog()

    def keep(context: int, maps: Mapping[int, Mapping[Tensor, Tensor]]) -> None:
        log.add(
            context,
            {w: [grad.detach().clone() for grad in grads.values()] for w, grads in maps.items()},
        )

    unheard = replace(scenario, seed=seed, engine="port").in_world(faults=NO_FAULTS)
    # In another order of messages processes draw the same numbers.
    out = io.StringIO()
    with _loggers_quiet():
        run = run_on_port(unheard, stdout=out, stderr=out, on_pass=keep, chance_seed=scenario.seed)
    gradients = run.gradients
    if gradients is not None and gradients.mismatches:
        # The port's own gradients do not agree with a single process, so they decide nothing.
        return {}, f"the port differs from a single process: {gradients.mismatches[0]}"
    return log.passes, None if run.ok else f"the port's run ends with {run.outcome}"


@contextmanager
def _loggers_quiet() -> Iterator[None]:
    """Modules that all processes share, as ``torch.multiprocessing``, log to the terminal."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


def _numbered(passes: Passes) -> Iterator[tuple[int, int, Found]]:
    for context, found in sorted(passes.items()):
        for number, each in enumerate(found):
            yield context, number, each


def _at(passes: Passes, context: int, number: int) -> Found | None:
    found = passes.get(context, [])
    return found[number] if number < len(found) else None


def _compare(got: Found, expected: Found) -> tuple[float, list[str]]:
    """The largest deviation that is finite, and what is wrong."""
    largest = 0.0
    complaints = []
    for worker in sorted(got.keys() | expected.keys()):
        left = list(got.get(worker, []))
        for wanted in expected.get(worker, []):
            at, found = _nearest(left, wanted)
            shape = f"worker {worker}, leaf {list(wanted.shape)}"
            if at is None:
                complaints.append(f"{shape}: there is no gradient, the port has one")
                continue
            del left[at]
            if math.isfinite(found.deviation):
                largest = max(largest, found.deviation)
            if found.complaint is not None:
                complaints.append(f"{shape}: {found.complaint}")
        for grad in left:
            shape = f"worker {worker}, leaf {list(grad.shape)}"
            complaints.append(f"{shape}: there is a gradient, the port has none")
    return largest, complaints


def _nearest(candidates: list[Tensor], wanted: Tensor) -> tuple[int | None, Comparison]:
    alike = [
        (compare(grad, wanted), at)
        for at, grad in enumerate(candidates)
        if grad.shape == wanted.shape and grad.dtype == wanted.dtype
    ]
    if not alike:
        return None, Comparison(math.inf, None)
    best, at = min(alike, key=_distance)
    return at, best


def _distance(item: tuple[Comparison, int]) -> tuple[bool, float]:
    comparison = item[0]
    deviation = comparison.deviation
    return comparison.complaint is not None, math.inf if math.isnan(deviation) else deviation
