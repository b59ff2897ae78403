"""What a run of a program came to, and how two runs compare.

The single-process interpreter and the one on workers both fill in an :class:`Outcome`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from squall.model.one_process.flow import forecast
from squall.model.one_process.shape_graph import Graph
from squall.model.program.compare import compare, to_dense
from squall.model.program.program import Program

#: leaf number -> its gradient so far in one context; absent: none
Gradients = dict[int, Tensor]


@dataclass
class StepOutcome:
    """One step, in its last attempt."""

    #: the value of each root, by operation; as it was before any backward
    roots: dict[int, Tensor] = field(default_factory=dict)
    #: accumulated gradients after each backward pass
    passes: list[Gradients] = field(default_factory=list)
    #: passes that failed while the step went on: by number among all, the text of the error
    failed: dict[int, str] = field(default_factory=dict)
    #: the text of the error that the step ended with
    error: str | None = None
    #: the text of the error of the first attempt, if there was a second one
    first_error: str | None = None
    finished: bool = False
    #: the autograd graph under the roots of each pass; of a run in one process
    graphs: list[Graph] = field(default_factory=list)
    #: the id of its autograd context; of a run on workers
    context: int = -1


@dataclass
class Outcome:
    """A whole run. Steps by (trainer, step number)."""

    steps: dict[tuple[int, int], StepOutcome] = field(default_factory=dict)
    #: final values of the leaves
    leaves: list[Tensor] = field(default_factory=list)
    #: values of references kept until the end of a trainer, by (trainer, step, operation)
    kept: dict[tuple[int, int, int], tuple[Tensor, ...]] = field(default_factory=dict)
    #: the errors that came instead of others
    kept_errors: dict[tuple[int, int, int], str] = field(default_factory=dict)
    #: sums of all gradients that hooks behind a leaf have seen, by leaf
    seen: dict[int, float] = field(default_factory=dict)
    #: the sum of all gradients that were retained
    retained: float = 0.0
    #: how many gradients were written to after a hook had been given them
    written: int = 0
    #: by trainer: the error that it ended with outside its steps
    broken: dict[int, str] = field(default_factory=dict)
    #: what came of what goes on beside a step, by (trainer, step, field, number); of a run on workers
    beside: dict[tuple[int, int, str, int], str] = field(default_factory=dict)
    #: what each worker had of each round of exchange, by (worker, round); of a run on workers
    gathers: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)


def differences(program: Program, expected: Outcome, got: Outcome) -> list[str]:
    """What is wrong with ``got``: a line each; none if it agrees.

    A gradient that is absent on one side and zero on the other is no difference: what reaches
    one tensor of a message reaches the others as zeros. A step that waits for a send function
    that is never fed is not expected to end.
    """
    found: list[str] = []
    exact = program.mode == "exact"
    for (trainer, number, _), expectation in zip(
        program.steps, expected.steps.values(), strict=True
    ):
        where = f"trainers[{trainer}].steps[{number}]"
        promised = forecast(program, trainer, number)
        outcome = got.steps.get((trainer, number), StepOutcome())
        if promised.unfed:
            if outcome.finished and outcome.error is None:
                found.append(f"{where}: ended, but {promised.unfed[0]} is never fed")
            continue
        if not outcome.finished:
            found.append(f"{where}: did not end")
            continue
        found += [f"{where}: {text}" for text in _step_differences(expectation, outcome, exact)]
    # A trainer that waits for ever neither takes its optimizer's steps nor fetches what it kept.
    waiting = {t for t, s, _ in program.steps if forecast(program, t, s).unfed}
    changed = {
        leaf
        for number in sorted(waiting)
        for optimizer in (program.trainers[number].optimizer,)
        if optimizer is not None
        for leaf in optimizer.leaves
    }
    for number, (value, other) in enumerate(zip(expected.leaves, got.leaves, strict=True)):
        if number in changed:
            continue
        complaint = compare(other, value, exact=exact).complaint
        if complaint is not None:
            found.append(f"leaves[{number}] at the end: {complaint}")
    for key, values in expected.kept.items():
        if key not in got.kept:
            if key[0] not in waiting:
                found.append(f"kept value {key}: missing")
            continue
        for value, other in zip(values, got.kept[key], strict=True):
            complaint = compare(other, value, exact=exact).complaint
            if complaint is not None:
                found.append(f"kept value {key}: {complaint}")
    return found


def _step_differences(expected: StepOutcome, got: StepOutcome, exact: bool) -> list[str]:
    found = []
    for name, one, other in (
        ("error", expected.error, got.error),
        ("error of the first attempt", expected.first_error, got.first_error),
    ):
        if (one is None) != (other is None) or (one is not None and one not in str(other)):
            found.append(f"{name} {other!r}, expected {one!r}")
    if found or expected.error is not None:
        return found
    for op, value in expected.roots.items():
        complaint = (
            compare(got.roots[op], value, exact=exact).complaint
            if op in got.roots
            else ("is missing")
        )
        if complaint is not None:
            found.append(f"root ops[{op}] {complaint}")
    if expected.failed or got.failed:
        return found  # the joint reference compares those that succeeded
    if len(expected.passes) != len(got.passes):
        found.append(f"{len(got.passes)} backward passes, expected {len(expected.passes)}")
    for number, (grads, others) in enumerate(zip(expected.passes, got.passes, strict=False)):
        for leaf in sorted({**grads, **others}):
            complaint = _gradient_differs(grads.get(leaf), others.get(leaf), exact)
            if complaint is not None:
                found.append(f"after pass {number}, gradient of leaves[{leaf}] {complaint}")
    return found


def _gradient_differs(expected: Tensor | None, got: Tensor | None, exact: bool) -> str | None:
    if expected is not None and got is not None:
        return compare(got, expected, exact=exact).complaint
    only = expected if expected is not None else got
    assert only is not None
    if not bool(to_dense(only).any()):
        return None
    return "is absent" if got is None else "is there, expected none"
