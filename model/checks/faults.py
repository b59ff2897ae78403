"""What holds however much goes wrong: calls end in time, and what is healed works again."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.checks.excuses import FAULT, NO_END, OWN_TIME, excused
from squall.model.events.fault_effects import ENDING, NATURES, own_time, slow_calls
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.one_process.outcome import StepOutcome
from squall.model.program.compare import EXACT, compare
from squall.model.program.operations import failing_calls
from squall.real import tracing

#: how much later than at its time a timeout may be noticed, in seconds: reading a clock takes some
_SLACK_S = 0.01
_BREAKS = frozenset(kind for kind, nature in NATURES.items() if nature.breaks)


@named("timeouts", engines=PORT_ONLY, work="both")
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
        if began is None:
            continue  # it has no limit
        if worker in own and excused(run, OWN_TIME):
            continue
        limit_s = records[began][4][3]
        took_s = time_s - records[began][0]
        if took_s > max(limit_s, 0.0) + _SLACK_S:
            what = "a call ended after its timeout"
            seen = f"{took_s:.6f} s"
            yield run.violation("timeouts", what, f"at most {limit_s} s", seen, began, n)


def _unsendable(run: Run) -> set[tuple[int, int]] | None:
    """Where a program makes calls that cannot be sent: the calls, by caller and id, that were. None
    if it makes no such call, and each has to be sent."""
    if run.program is None or not failing_calls(run.program) & {"copy", "worker"}:
        return None
    sent = (run.records[n][4] for n in run.of(tracing.MESSAGE_SENT))
    answers = ("_RET", "_RESP", "_ACK", "EXCEPTION")
    return {(src, id) for _, src, _, type, id, _, _ in sent if not type.endswith(answers)}


@named("errors", engines=PORT_ONLY, work="both")
def ERRORS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A call that fails, and not because its time is over, has a reason between its two workers:
    the answer is an exception, its message could not be sent, their connection broke, or the
    process of one of them ended or shut RPC down. What becomes of a third worker is none.
    """
    records = run.records
    quiet = next(iter(run.of(tracing.TABLES_COUNTED)), 0)  # from here on all workers shut down
    failed = [n for n in run.of(tracing.CALL_ENDED) if n < quiet and records[n][4][2] == "error"]
    if not failed:
        return
    answered: dict[tuple[int, int, int], int] = {}
    for n in run.of(tracing.MESSAGE_DELIVERED):
        _, src, dst, type, id, _ = records[n][4]
        if type == "EXCEPTION":
            answered.setdefault((dst, src, id), n)
    broken: dict[frozenset[int], int] = {}
    gone: dict[int, int] = {}
    for n in run.of(tracing.FAULT_INJECTED):
        kind, _, worker, src, dst, *_ = records[n][4]
        if kind in _BREAKS:
            broken.setdefault(frozenset((src, dst)), n)
        elif kind in ENDING:
            gone.setdefault(worker, n)
    never = len(records)
    unsent = _unsendable(run)
    for n in failed:
        _, worker, _, _, (id, dst, _) = records[n]
        if unsent is not None and (worker, id) not in unsent:
            continue
        reason = min(
            answered.get((worker, dst, id), never),
            broken.get(frozenset((worker, dst)), never),
            gone.get(worker, never),
            gone.get(dst, never),
        )
        if reason > n:
            what = "a call failed for no reason of its own"
            expected = f"call {id} from worker {worker} to worker {dst} answered"
            yield run.violation("errors", what, expected, "it failed", n)


@named("recovery", engines=PORT_ONLY)
def RECOVERY(run: Run) -> Iterator[Violation]:  # noqa: N802
    """When all faults are over, the workers that are there, the restarted ones among them, train
    in a fresh context: it ends without error, and its gradients are those of one process. Where
    messages alone took longer than a call may, nothing is said.
    """
    recovery = run.outcomes.recovery
    if recovery is None:
        return  # nothing was injected
    if run.crash is not None and excused(run, NO_END):
        return
    if recovery.error is not None:
        yield Violation("recovery", "it broke off", "an end", recovery.error)
        return
    for key, expected in recovery.expected.steps.items():
        got = recovery.got.steps.get(key, StepOutcome())
        if not got.finished or got.error is not None:
            if any(n >= recovery.began for n in slow_calls(run)) and excused(run, FAULT):
                return
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


RANK = 90
PROPERTIES: tuple[Property, ...] = (TIMEOUTS, ERRORS, RECOVERY)
