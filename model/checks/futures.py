"""Calls, and the errors that have to reach whoever waited."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.checks.excuses import ENDED_PROCESS, FAULT, NO_END, OWN_TIME, TOO_LATE, excused
from squall.model.checks.failed_passes import (
    CREATION_TIMED_OUT,
    OVER,
    TIMED_OUT,
    gave_up_a_pass,
    of_call_given_up,
)
from squall.model.checks.group_departure import fetch_overtaken
from squall.model.checks.lost_owners import wrong_owners
from squall.model.events.fault_effects import RETRIES, explained, faults_of, own_time
from squall.model.events.passes import REFUSED
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.program.durations import slept_s
from squall.model.program.operations import UNCOPYABLE, failing_calls, planted, said_of
from squall.model.program.program import Step
from squall.model.program.stories import PLANTED, errors
from squall.real import tracing

_KILLED = "killed"
#: seconds that a worker may take to end what it has to end at once
_SOON_S = 0.1
#: with what begins why a message was lost whose connection broke
_WITH_ITS_CONNECTION = "the connection between workers"
#: the types of the messages that answer requests
_ANSWERS = frozenset(
    {
        "SCRIPT_RET",
        "PYTHON_RET",
        "REMOTE_RET",
        "SCRIPT_RREF_FETCH_RET",
        "PYTHON_RREF_FETCH_RET",
        "RREF_ACK",
        "FORWARD_AUTOGRAD_RESP",
        "BACKWARD_AUTOGRAD_RESP",
        "CLEANUP_AUTOGRAD_CONTEXT_RESP",
        "RUN_WITH_PROFILING_RESP",
        "RREF_BACKWARD_RESP",
        "EXCEPTION",
    }
)
#: requests whose handlers may find that the pass, or its context, is over
_OF_PASSES = ("BACKWARD_AUTOGRAD_REQ", "RREF_BACKWARD_REQ")


@named("futures", engines=PORT_ONLY, work="both")
def FUTURES(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Each call ends once, and each request is handled once and answered; a handler's error is the
    caller's error, and where there was none the caller sees none. No task dies of an error that
    nobody handles. An error that a program plants reaches the trainer whose step it is in, and
    names the worker it was raised on; and no other error does. Only gradients can come too late to
    be handled: every other request that is waited for is, unless it is a planted error that is its
    answer. Where a fault has hit something for good, what comes after may fail as well, with an
    error that says what happened; a call ends without the outcome of its handler only if that did
    not reach the caller. A connection that breaks ends all calls over it at once, nothing is sent
    again more often than it may be, and a reference is given up for the end of its owner alone.
    """
    yield from _calls(run)
    # A process of a script that ends by itself breaks connections, too.
    if faults_of(run) and (run.script is None or run.settled):
        yield from _lost_together(run)
    for n in run.of(tracing.CALL_RETRIED):
        _, type, attempt, _ = run.records[n][4]
        most = RETRIES.get(type, 0)
        if attempt > most:
            what = f"{type} sent too often"
            yield run.violation("futures", what, f"{most} times more", f"{attempt} times", n)
    records = run.records
    for n in [n for n in run.of(tracing.TASK_ENDED) if records[n][4][0] is not None]:
        error = records[n][4][0]
        if error != _KILLED:
            yield run.violation("futures", "a task died", "no error left over", error, n)
    yield from wrong_owners(run)
    yield from _step_errors(run)
    yield from _handler_errors(run)


def _handler_errors(run: Run) -> Iterator[Violation]:
    if (run.program is None or run.stuck or run.hangs) and excused(run, NO_END):
        return
    records = run.records
    failed = [n for n in run.of(tracing.HANDLER_ENDED) if records[n][4][3] is not None]
    if not failed:
        return
    texts = [
        planted(op.fault, trainer, number, index)
        for trainer, number, step in run.program.steps
        for index, op in enumerate(step.ops)
        if op.fault is not None
    ]
    stories = [story for _, _, step in run.program.steps for story in step.stories]
    if stories:
        texts += errors(stories)
    texts += said_of(run.program)
    if any(cargo.fails for _, _, step in run.program.steps for cargo in step.cargoes):
        texts.append(PLANTED)
    gave_up = {
        (records[n][1], records[n][4][0])
        for n in run.of(tracing.CALL_ENDED)
        if records[n][4][2] == "timeout"
    }
    faults = faults_of(run)
    for n in failed:
        src, type, id, error = records[n][4]
        # A pass that its caller gave up goes on, and the next one is refused meanwhile; whoever is
        # in between hears of the end of a call's time, and hands it on.
        refused = REFUSED in error and (
            any(caller == src for caller, _ in gave_up) or gave_up_a_pass(run)
        )
        in_between = TIMED_OUT in error and bool(gave_up)
        over = type in _OF_PASSES and (
            OVER.search(error) or refused or in_between or of_call_given_up(run, error)
        )
        if (over or (src, id) in gave_up) and excused(run, TOO_LATE):
            continue
        if (
            faults.hit(n)
            and (explained(error) or _ended_before(run, (src, id), n))
            and excused(run, FAULT)
        ):
            continue
        if _left_meanwhile(run, n) and excused(run, ENDED_PROCESS):
            continue
        if fetch_overtaken(run, n, *records[n][4][:3]) and excused(run, ENDED_PROCESS):
            continue
        if not any(text in error for text in texts):
            what = f"{type} could not be handled"
            yield run.violation("futures", what, "an answer", error, n)


def _left_meanwhile(run: Run, n: int) -> bool:
    """Whether the worker ended, or left its group, since it began with what event ``n`` ends."""
    records = run.records
    _, worker, _, _, (src, type, id, _) = records[n]
    begun = (
        at
        for at in run.of(tracing.HANDLER_STARTED)
        if at < n and (records[at][1], *records[at][4]) == (worker, src, type, id)
    )
    since = max(begun, default=n)
    return any(since < end < n for end in faults_of(run).gone.get(worker, ()))


def _calls(run: Run) -> Iterator[Violation]:
    records = run.records
    faults = faults_of(run)
    started = {(records[n][1], records[n][4][0]): n for n in run.of(tracing.CALL_STARTED)}
    ended: dict[tuple[int, int], int] = {}
    for n in run.of(tracing.CALL_ENDED):
        key = (records[n][1], records[n][4][0])
        if key in ended:
            yield run.violation("futures", "a call ended twice", "once", "again", ended[key], n)
        elif key not in started:
            yield run.violation("futures", "a call ended that was not made", "a call", "none", n)
        ended[key] = n
    answered: dict[tuple[int, int], int] = {}
    unwritten = _unwritten(run)
    for n in run.of(tracing.HANDLER_ENDED):
        src, _, id, error = records[n][4]
        key = (src, id)
        if key in answered:
            what = "a request was answered twice"
            yield run.violation("futures", what, "once", "again", answered[key], n)
        answered[key] = n
        end = ended.get(key)
        if end is None:
            continue
        outcome = records[end][4][2]
        if key in unwritten and error is None:
            error = UNCOPYABLE
        if outcome != "timeout" and (outcome == "ok") != (error is None):
            # That the connection broke may be reported, or noticed, only after the answer came.
            broken = outcome == "error" and (bool(faults) or not run.settled)
            late = bool(faults.counts["corrupt"] or faults.counts["reset"] or faults.gone) or key[
                0
            ] in own_time(run)
            if broken and (late or _unanswered(run, key, end)) and excused(run, FAULT):
                continue
            expected = "ok" if error is None else f"the error {error!r}"
            what = "an outcome did not reach the caller"
            yield run.violation("futures", what, expected, outcome, n, end)
    if run.settled:
        yield from never_ended(run)


def never_ended(run: Run) -> Iterator[Violation]:
    """Calls that nothing came of, and requests that were taken up and not answered, at the end."""
    records, faults = run.records, faults_of(run)
    ended = {(records[n][1], records[n][4][0]) for n in run.of(tracing.CALL_ENDED)}
    answered = {(records[n][4][0], records[n][4][2]) for n in run.of(tracing.HANDLER_ENDED)}
    for n in run.of(tracing.CALL_STARTED):
        worker, call = records[n][1], records[n][4][0]
        if (worker, call) not in ended and not faults.gone_after(worker, n):
            yield run.violation("futures", "a call never ended", "an end", "none", n)
    for n in run.of(tracing.HANDLER_STARTED):
        src, _, call = records[n][4]
        if (src, call) not in answered and not faults.gone_after(records[n][1], n):
            yield run.violation("futures", "a request was never answered", "an answer", "none", n)


def _unwritten(run: Run) -> set[tuple[int, int]]:
    """The requests, by caller and id, whose reply holds a tensor that cannot be copied: their caller
    is told that instead. In a program only where it asks for one."""
    if run.program is not None and not failing_calls(run.program) & {"reply", "late reply"}:
        return set()
    sent = [run.records[n][4] for n in run.of(tracing.MESSAGE_SENT)]
    return {
        (dst, id)
        for _, _, dst, type, id, _, about in sent
        if type == "EXCEPTION" and UNCOPYABLE in str(about)
    }


def _lost_together(run: Run) -> Iterator[Violation]:
    records = run.records
    faults = faults_of(run)
    ended = {(records[n][1], records[n][4][0]): n for n in run.of(tracing.CALL_ENDED)}
    began: dict[tuple[int, int], int] = {}
    #: by caller and peer
    calls: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for n in run.of(tracing.CALL_STARTED):
        _, worker, _, _, values = records[n]
        began[worker, values[0]] = n
        calls.setdefault((worker, values[1]), []).append((worker, values[0]))
    own = own_time(run)
    # What breaks a connection is told of as it is sent, which may be some time before.
    later = {
        records[n][4][7]
        for n in run.of(tracing.FAULT_INJECTED)
        if records[n][4][0] == "reset" and records[n][4][8]
    }
    lost = [
        n
        for n in run.of(tracing.MESSAGE_DROPPED)
        if records[n][4][0] not in later and records[n][4][5].startswith(_WITH_ITS_CONNECTION)
    ]
    # By number: an id may have been garbled on the way, which is what broke the connection.
    sent = {records[n][4][0]: records[n][4] for n in run.of(tracing.MESSAGE_SENT)} if lost else {}
    for n in lost:
        time_s, number = records[n][0], records[n][4][0]
        _, src, dst, type, id, *_ = sent[number]
        caller, peer = (dst, src) if type in _ANSWERS else (src, dst)
        end = ended.get((caller, id))
        if (caller, id) not in began or (end is not None and records[end][0] <= time_s + _SOON_S):
            continue
        if (caller in own or faults.gone_after(caller, began[caller, id])) and excused(
            run, OWN_TIME
        ):
            continue
        seen = "it goes on" if end is None else f"it ended at {records[end][0]:.6f}"
        what, wanted = "a call outlived its connection", f"call {id} to worker {peer} ends with it"
        yield run.violation("futures", what, wanted, seen, began[caller, id], n)
    told: set[tuple[int, int, float]] = set()
    for call, end in ended.items():
        time_s, worker, _, _, (_, peer, outcome) = records[end]
        place = (worker, peer, time_s)
        if outcome != "error" or place in told or call not in began:
            continue
        # A call that fails as it is made found no connection; one that was answered is over.
        if records[began[call]][0] == time_s or not _unanswered(run, call, end):
            continue
        told.add(place)
        if (worker in own or faults.gone_after(worker, end)) and excused(run, OWN_TIME):
            continue
        for other in calls[worker, peer]:
            if faults.gone_after(worker, began[other]) and excused(run, ENDED_PROCESS):
                continue  # a process of that rank before this one made it
            over = ended.get(other)
            if records[began[other]][0] < time_s and (
                over is None or records[over][0] > time_s + _SOON_S
            ):
                what = "a call outlived its connection"
                wanted = f"call {other[1]} to worker {peer} ends as call {call[1]} does"
                seen = "it goes on" if over is None else f"it ended at {records[over][0]:.6f}"
                yield run.violation("futures", what, wanted, seen, began[other], end)


def _ended_before(run: Run, call: tuple[int, int], n: int) -> bool:
    """Whether nobody waited for the answer to a call any more."""
    ends: dict[tuple[int, int], int] | None = run.__dict__.get("_ends")
    if ends is None:
        records = run.records
        ends = run.__dict__["_ends"] = {
            (records[n][1], records[n][4][0]): n for n in run.of(tracing.CALL_ENDED)
        }
    return ends.get(call, n) < n


def _unanswered(run: Run, call: tuple[int, int], end: int) -> bool:
    """Whether no answer to a call came before it ended."""
    answers: dict[tuple[int, int], int] | None = run.__dict__.get("_answers")
    if answers is None:
        answers = run.__dict__["_answers"] = {}
        for n in reversed(run.of(tracing.MESSAGE_DELIVERED)):
            dst, type, id = run.records[n][4][2:5]
            if type in _ANSWERS:
                answers[dst, id] = n
    return answers.get(call, end) >= end


def _creation_slept(run: Run, step: Step, error: str | None) -> bool:
    """Whether a creation took too long for the pass from its value, which runs as soon as that is
    there, in the handler of the call that makes it; and user code of the pass sleeps."""
    assert run.program is not None
    return (
        error is not None
        and CREATION_TIMED_OUT in error
        and any(backward.where == "rref" for backward in step.backwards)
        and slept_s(run.program) > 0
    )


def _step_errors(run: Run) -> Iterator[Violation]:
    if run.program is None or run.outcomes.expected is None or run.outcomes.got is None:
        return
    faults = faults_of(run)
    for trainer, number, step in run.program.steps:
        got = run.outcomes.got.steps.get((trainer, number))
        expected = run.outcomes.expected.steps[trainer, number]
        predicted = run.forecast(trainer, number)
        if (got is None or not got.finished or predicted.unfed) and excused(run, NO_END):
            continue
        where = f"trainers[{trainer}].steps[{number}]"
        hit = faults.hit()
        slept = _creation_slept(run, step, got.first_error or got.error)
        if slept and excused(run, TOO_LATE):
            continue
        # After a retry, ``first_error`` is that of the attempt in which errors were planted.
        again = expected.first_error is not None
        if got.first_error is not None and not again and not (hit and explained(got.first_error)):
            yield Violation("futures", "an error", f"{where}: no error", repr(got.first_error))
        wanted = (expected.first_error, None) if again else (expected.error,)
        seen = (got.first_error, got.error) if again else (got.error,)
        for text, error in zip(wanted, seen, strict=True):
            texts = predicted.errors if text is not None else []
            if error is None:
                if text is not None:
                    yield Violation("futures", "an error was lost", f"{where}: {text!r}", "none")
                continue
            raised = next((each for each in texts if each in error), None)
            if raised is None and hit and explained(error) and excused(run, FAULT):
                continue
            if raised is None:
                expectation = " or ".join(map(repr, texts)) if texts else "no error"
                what = "an error" if not texts else "another error"
                yield Violation("futures", what, f"{where}: {expectation}", repr(error))
                continue
            for index, op in enumerate(step.ops):
                if op.fault is None or planted(op.fault, trainer, number, index) != raised:
                    continue
                if op.worker != run.program.trainers[trainer].worker and not _names(
                    error, op.worker
                ):
                    expectation = f"{where}: worker {op.worker} named"
                    what = "an error does not say where it comes from"
                    yield Violation("futures", what, expectation, repr(error))


def _names(error: str, worker: int) -> bool:
    return f"WorkerInfo(id={worker}," in error or f"Error on Node {worker}:" in error


RANK = 50
PROPERTIES: tuple[Property, ...] = (FUTURES,)
