"""What a run came to: gradients and values, also after a retry, the end, and repetition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from squall.model.checks.excuses import (
    FAULT,
    HOOKS,
    INDEFINITE,
    LOCAL_ACCUMULATION,
    NO_END,
    TOLERANCE,
    TOO_LATE,
    ZEROS,
    excused,
)
from squall.model.events.fault_effects import faults_of, indefinite
from squall.model.events.passes import joint_passes
from squall.model.events.run import Property, Run, Violation, named
from squall.model.one_process.outcome import StepOutcome
from squall.model.program.compare import compare, to_dense
from squall.real import tracing

#: what a call meets whose context was released meanwhile
_RELEASED = "Couldn't find autograd context data"


@named("gradients")
def GRADIENTS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """After each backward pass, each leaf's accumulated gradient in its context is what
    ``torch.autograd`` accumulates in one process: bit for bit in mode exact, whatever the order
    of the sums, and within the tolerance of the dtype in mode float. Where mathematics and plain
    local use differ, since two leaves share one gradient (pytorch/pytorch#34082), the port follows
    mathematics, and PyTorch's engine local use. So are the values that a
    pass starts from, those that references give at the end, and the leaves after all optimizer
    steps. A gradient that a hook was given is not written to after that.
    """
    one_process, workers = run.outcomes.expected, run.outcomes.got
    if run.program is None or one_process is None or workers is None:
        return
    if workers.written:
        what = "gradients that a hook was given, and kept"
        yield Violation("gradients", what, "as they were", f"{workers.written} were written to")
    for key, expected, got in _finished_steps(run):
        if expected.first_error is None:
            yield from _step(run, "gradients", key, expected, got)
    if (run.stuck or run.hangs) and excused(run, NO_END):
        return
    yield from _seen_by_hooks(run)
    unknown = indefinite(run)
    for number, (value, other) in enumerate(zip(one_process.leaves, workers.leaves, strict=True)):
        if (number in unknown.leaves or number in unknown.lost) and excused(run, INDEFINITE):
            continue
        complaint = _complaint(run, other, value)
        if complaint is not None:
            yield Violation(
                "gradients",
                "a leaf at the end",
                f"that of one process: leaves[{number}]",
                complaint,
            )
    for place, values in one_process.kept.items():
        others = workers.kept.get(place)
        if others is None:
            # Nobody waited for its operation, which reached a worker that had released the context.
            late = _RELEASED in workers.kept_errors.get(place, "")
            if late and excused(run, TOO_LATE):
                continue
            if workers.steps[place[:2]].error is None and not faults_of(run).hit():
                yield Violation("gradients", "a kept reference", f"a value of {place}", "none")
            continue
        if place[:2] in unknown.steps and excused(run, INDEFINITE):
            continue
        for value, other in zip(values, others, strict=True):
            complaint = _complaint(run, other, value)
            if complaint is not None:
                yield Violation("gradients", "a kept reference", f"the value of {place}", complaint)


def _seen_by_hooks(run: Run) -> Iterator[Violation]:
    """Sums, which no order changes, of integers; a failed pass may have called any hooks."""
    expected, got = run.outcomes.expected, run.outcomes.got
    assert run.program is not None and expected is not None and got is not None
    if faults_of(run).hit() and excused(run, FAULT):
        return
    steps = [*expected.steps.values(), *got.steps.values()]
    failed = any(step.error or step.first_error or step.failed for step in steps)
    if run.program.mode != "exact" or failed:
        if expected.seen or expected.retained:
            excused(run, HOOKS)
        return
    for number, total in expected.seen.items():
        other = got.seen.get(number, 0.0)
        if other != total:
            what = "what hooks behind a leaf saw"
            yield Violation("gradients", what, f"{total} in all for leaves[{number}]", str(other))
    if got.retained != expected.retained:
        what, total = "retained gradients", expected.retained
        yield Violation("gradients", what, f"{total} in all", str(got.retained))


def _released(run: Run, key: tuple[int, int], got: StepOutcome) -> set[int]:
    """Leaves on workers that released the context of a step before its end, since its trainer's
    process was ending by a fault: what they had of it went before anybody read it."""
    program = run.program
    if program is None or program.trainers[key[0]].worker not in faults_of(run).gone:
        return set()
    ends = [root.ended for root, _ in joint_passes(run) if root.context == got.context]
    last = max(ends, default=-1)
    workers = {
        run.records[n][1]
        for n in run.of(tracing.CONTEXT_RELEASED)
        if run.records[n][4][0] == got.context and n < last
    }
    return {number for number, leaf in enumerate(program.leaves) if leaf.owner in workers}


@named("retry")
def RETRY(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A step that failed and is done again in a fresh context comes to what it would have come
    to had nothing failed: no gradient, count or graph of the failed attempt shows in it.
    """
    if run.program is None or run.outcomes.expected is None:
        return
    if all(expected.first_error is None for expected in run.outcomes.expected.steps.values()):
        return
    for key, expected, got in _finished_steps(run):
        if expected.first_error is not None:
            yield from _step(run, "retry", key, expected, got)


def _finished_steps(run: Run) -> Iterator[tuple[tuple[int, int], StepOutcome, StepOutcome]]:
    """The steps that end in both runs, and without error in that of one process."""
    if run.program is None or run.outcomes.expected is None or run.outcomes.got is None:
        return
    unknown = indefinite(run)
    for key, expected in run.outcomes.expected.steps.items():
        if key in unknown.steps and excused(run, INDEFINITE):
            continue
        got = run.outcomes.got.steps.get(key)
        ended = got is not None and got.finished and got.error is None
        if got is not None and ended and expected.error is None and not run.forecast(*key).unfed:
            yield key, expected, got


def _step(
    run: Run,
    property: str,
    key: tuple[int, int],
    expected: StepOutcome,
    got: StepOutcome,
) -> Iterator[Violation]:
    where = f"trainers[{key[0]}].steps[{key[1]}]"
    for op, value in expected.roots.items():
        other = got.roots.get(op)
        complaint = "none" if other is None else _complaint(run, other, value)
        if complaint is not None:
            yield Violation(property, "the value of a root", f"{where}.ops[{op}]", complaint)
    if got.failed or expected.failed:
        return  # property "passes" compares those that succeeded
    if len(got.passes) != len(expected.passes):
        seen = str(len(got.passes))
        yield Violation(property, "passes", f"{len(expected.passes)} in {where}", seen)
    lost = indefinite(run).lost | _released(run, key, got)
    latest = _side_by_side(run, key)
    for number, (grads, others) in enumerate(zip(expected.passes, got.passes, strict=False)):
        for what, leaf, complaint in _gradients(run, grads, others):
            if leaf in lost and excused(run, INDEFINITE):
                continue
            if any(
                all(each != leaf for _, each, _ in _gradients(run, later, others))
                for later in expected.passes[number + 1 : latest[number] + 1]
            ):
                continue
            local = _as_local(run, key, number, leaf, others.get(leaf))
            if local and excused(run, LOCAL_ACCUMULATION):
                continue
            events = [
                root.ended
                for root, _ in joint_passes(run)
                if root.context == got.context and root.ended >= 0
            ]
            yield run.violation(
                property,
                what,
                f"that of one process for leaves[{leaf}] after pass {number} of {where}",
                complaint,
                *events[number : number + 1],
            )


def _side_by_side(run: Run, key: tuple[int, int]) -> list[int]:
    """For each pass of a step: the last one beside which it runs, which may have added gradients by
    the time that they are looked at."""
    assert run.program is not None
    trainer, number = key
    latest: list[int] = []
    for backward in run.program.trainers[trainer].steps[number].backwards:
        first, times = len(latest), backward.times
        together = backward.every_s is not None
        latest += [first + times - 1 if together else first + each for each in range(times)]
    return latest


def _as_local(run: Run, key: tuple[int, int], number: int, leaf: int, got: Tensor | None) -> bool:
    """Whether PyTorch's engine gives what plain local use gives, which is not mathematics."""
    if run.engine == "port" or got is None:
        return False
    passes = run.as_local.steps[key].passes
    local = passes[number].get(leaf) if number < len(passes) else None
    return local is not None and compare(got, local, tolerance=run.tolerance).complaint is None


def _complaint(run: Run, got: Tensor, expected: Tensor) -> str | None:
    """What is wrong with a value, if it is further from that of one process than it may be."""
    found = compare(got, expected, tolerance=run.tolerance)
    if found.deviation and found.complaint is None:
        excused(run, TOLERANCE)
    return found.complaint


def _gradients(
    run: Run, expected: Mapping[int, Tensor], got: Mapping[int, Tensor]
) -> Iterator[tuple[str, int, str]]:
    """What differs, for which leaf, and how. No gradient and zeros are the same: what reaches one
    tensor of a message reaches the others as zeros."""
    for leaf in sorted({**expected, **got}):
        one, other = expected.get(leaf), got.get(leaf)
        if one is not None and other is not None:
            complaint = _complaint(run, other, one)
            if complaint is not None:
                yield "a gradient", leaf, complaint
            continue
        only = one if one is not None else other
        assert only is not None
        if not bool(to_dense(only).any()):
            excused(run, ZEROS)
        elif other is None:
            yield "a gradient is missing", leaf, "none"
        else:
            yield "a gradient too many", leaf, str(other.tolist())


@named("determinism")
def DETERMINISM(run: Run) -> Iterator[Violation]:  # noqa: N802
    """The same scenario, run again, has the same digest: the same events in the same order, at
    the same virtual times.
    """
    digests, divergence = run.judged.digests, run.judged.divergence
    for digest in digests[1:]:
        if digest != digests[0]:
            yield Violation("determinism", "the digest", digests[0], digest)
    if divergence is not None:
        yield Violation("determinism", "a run, again", "the same events", divergence)


RANK = 70
PROPERTIES: tuple[Property, ...] = (GRADIENTS, RETRY, DETERMINISM)
