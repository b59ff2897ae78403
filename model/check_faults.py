"""What holds however much goes wrong: calls end in time, and what is healed works again."""

from __future__ import annotations

from collections.abc import Iterator

from model.compare import EXACT, compare
from model.faulted import own_time
from model.outcome import StepOutcome
from model.run import Property, Run, Violation, named
from real import tracing

#: how much later than at its time a timeout may be noticed, in seconds: reading a clock takes some
_SLACK_S = 0.01


@named("timeouts")
def TIMEOUTS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Each call ends within its timeout, whatever becomes of its message, its answer and its
    receiver: with the answer, or with an error. Calls of a worker that stood still, was slow, or
    has a clock of its own, end when that worker gets to it.
    """
    records = run.records
    started: dict[tuple[int, int], int] = {}
    for n in run.of(tracing.CALL_STARTED):
        _, worker, _, _, values = records[n]
        if values[3]:
            started[worker, values[0]] = n
    own = own_time(run)
    for n in run.of(tracing.CALL_ENDED):
        time_s, worker, _, _, values = records[n]
        began = started.get((worker, values[0]))
        if began is None or worker in own:
            continue
        limit_s = records[began][4][3]
        took_s = time_s - records[began][0]
        if took_s > max(limit_s, 0.0) + _SLACK_S:
            what = "a call ended after its timeout"
            seen = f"{took_s:.6f} s"
            yield run.violation("timeouts", what, f"at most {limit_s} s", seen, began, n)


@named("recovery")
def RECOVERY(run: Run) -> Iterator[Violation]:  # noqa: N802
    """When all faults are over, the workers that are there, the restarted ones among them, train
    in a fresh context: it ends without error, and its gradients are those of one process.
    """
    recovery = run.recovery
    if recovery is None or run.crash is not None:
        return
    if recovery.error is not None:
        yield Violation("recovery", "it broke off", "an end", recovery.error)
        return
    for key, expected in recovery.expected.steps.items():
        got = recovery.got.steps.get(key, StepOutcome())
        if not got.finished or got.error is not None:
            seen = got.error or "; ".join(run.waits) or "no end"
            yield Violation("recovery", "a step after the faults", f"steps[{key[1]}] ends", seen)
            return
        for number, (grads, others) in enumerate(zip(expected.passes, got.passes, strict=False)):
            for leaf, grad in grads.items():
                other = others.get(leaf)
                complaint = (
                    "none" if other is None else compare(other, grad, tolerance=EXACT).complaint
                )
                if complaint is not None:
                    where = f"leaves[{leaf}] after pass {number} of steps[{key[1]}]"
                    yield Violation("recovery", "a gradient after the faults", where, complaint)
    for number, (value, other) in enumerate(
        zip(recovery.expected.leaves, recovery.got.leaves, strict=False)
    ):
        complaint = compare(other, value, tolerance=EXACT).complaint
        if complaint is not None:
            yield Violation("recovery", "a leaf after the faults", f"leaves[{number}]", complaint)


PROPERTIES: tuple[Property, ...] = (TIMEOUTS, RECOVERY)
