"""Passes that fail while others follow in the same context."""

from __future__ import annotations

import re
from collections.abc import Iterator

from squall.model.checks.excuses import FAULT, TOO_LATE, excused
from squall.model.events.fault_effects import explained, faults_of
from squall.model.events.passes import REFUSED, joint_passes
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.one_process.outcome import StepOutcome
from squall.model.program.durations import sleeps
from squall.model.program.operations import planted
from squall.model.program.program import Program, Step
from squall.real import tracing

TIMED_OUT = "RPC ran for more than set timeout"
CREATION_TIMED_OUT = "RRef creation via rpc.remote() timed out"
#: how a worker says that it has seen the end of a pass which another one goes on with
OVER = re.compile(
    r"these gradients belong to is over on worker|a later backward pass has begun|"
    r"was released while worker|Autograd context no longer valid|"
    r"Could not find autograd context with id"
)
_NO_SEND_FUNCTION = re.compile(r"Could not find send function for autograd message id: (\d+)")


@named("passes", engines=PORT_ONLY)
def PASSES(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Whatever failed before in its context, and whatever of that still runs: a pass that succeeds
    adds exactly its own gradients to each leaf. What a pass that fails may leave are the gradients
    that its parts had added by then; a part on a worker that has not heard of the failure goes on
    until it has done what it can, a later pass comes, or the context is released. A part that is
    over, as that of the pass's root is when ``backward`` raises, adds and sends nothing any more,
    and nothing is added to a context that was released, or sent for it. A pass fails only if an error was planted in its way,
    if user code in it sleeps for longer than a call may take, if another pass runs in its context,
    if an earlier one that failed did so for a reason that still holds, or because of a fault.
    """
    for mismatch in run.gradients.mismatches if run.gradients is not None else ():
        yield Violation("passes", "a gradient", "that of one process", mismatch)
    program = run.program
    if program is None or run.outcomes.expected is None or run.outcomes.got is None:
        return
    for trainer, number, step in program.steps:
        got = run.outcomes.got.steps.get((trainer, number))
        if got is None or not got.failed:
            continue
        allowed = _reasons(run, program, trainer, number, step)
        again = got.first_error is not None
        for at, error in sorted(got.failed.items()):
            if not again and at in run.outcomes.expected.steps[trainer, number].failed:
                continue
            if any(text in error for text in allowed):
                continue
            if OVER.search(error) and (TIMED_OUT in allowed or REFUSED in allowed):
                continue
            if of_call_given_up(run, error) and excused(run, TOO_LATE):
                continue
            if REFUSED in error and gave_up_a_pass(run) and excused(run, TOO_LATE):
                continue
            if faults_of(run).hit() and explained(error) and excused(run, FAULT):
                continue
            where = f"trainers[{trainer}].steps[{number}]: pass {at} to succeed"
            yield run.violation("passes", "a pass failed", where, repr(error), *_ends(run, got))


def of_call_given_up(run: Run, error: str) -> bool:
    """Whether gradients came for the send function of a call that its caller had given up: with a
    creation that takes too long its send function goes, but ``RRef.backward`` still reaches what
    it made (docs/divergences.md)."""
    found = _NO_SEND_FUNCTION.search(error)
    return found is not None and int(found[1]) in _given_up(run)


def gave_up_a_pass(run: Run) -> bool:
    """Whether a call of ``RRef.backward`` ran out of time, or failed before its handler was done, as
    when its connection broke: its pass may go on for as long again."""
    records = run.records
    calls = {
        (records[n][1], records[n][4][0])
        for n in run.of(tracing.CALL_STARTED)
        if records[n][4][2] == "RREF_BACKWARD_REQ"
    }
    if not calls:
        return False
    done = {(records[n][4][0], records[n][4][2]): n for n in run.of(tracing.HANDLER_ENDED)}
    return any(
        records[n][4][2] == "timeout" or done.get(call, len(records)) > n
        for n in run.of(tracing.CALL_ENDED)
        if records[n][4][2] != "ok" and (call := (records[n][1], records[n][4][0])) in calls
    )


def _given_up(run: Run) -> set[int]:
    """The messages whose send functions went because the time of their calls was over."""
    given_up: set[int] | None = run.__dict__.get("_messages_given_up")
    if given_up is None:
        given_up = run.__dict__["_messages_given_up"] = set()
        ended: dict[int, float] = {}
        for n in run.of(tracing.CALL_ENDED, tracing.SEND_DETACHED):
            time_s, worker, _, type, values = run.records[n]
            if type is tracing.SEND_DETACHED:
                if ended.get(worker) == time_s:
                    given_up.add(values[1])
            elif values[2] == "timeout":
                ended[worker] = time_s
    return given_up


def _reasons(run: Run, program: Program, trainer: int, number: int, step: Step) -> list[str]:
    """What errors of the passes of a step may say."""
    found = [
        planted(op.fault, trainer, number, index)
        for index, op in enumerate(step.ops)
        if op.fault is not None
    ]
    if any(backward.every_s is not None for backward in step.backwards):
        found.append(REFUSED)
    timeouts = run.of(tracing.CALL_ENDED)
    if sleeps(program) and any(run.records[n][4][2] == "timeout" for n in timeouts):
        # A call of RRef.backward may be given up while its pass goes on.
        found += [TIMED_OUT, REFUSED]
    return found


def _ends(run: Run, got: StepOutcome) -> list[int]:
    return [
        root.ended
        for root, _ in joint_passes(run)
        if root.context == got.context and root.error is not None and root.ended >= 0
    ]


RANK = 75
PROPERTIES: tuple[Property, ...] = (PASSES,)
