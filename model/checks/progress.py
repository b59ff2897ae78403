"""Every run ends, but for the passes that cannot, which are predicted and explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squall.model.checks.excuses import FAULT, excused
from squall.model.events.fault_effects import EFFECTS, explained, faults_of, slow_calls
from squall.model.events.predicted_hangs import Predicted, cut_short, predict, too_late
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.one_process.flow import FETCHED
from squall.model.one_process.outcome import StepOutcome
from squall.model.program.durations import acts_s, beside_s, slept_s
from squall.real import tracing

#: virtual seconds that a run without faults may take at most: with a hang, in which calls wait
#: until they time out, and without one
LONGEST_HANG_S, LONGEST_S = 600.0, 30.0
#: what faults may add: clean-ups are tried for more than an hour, and each try may time out
LONGEST_FAULTY_S = 20_000.0
#: what the leader of a group says that was not heard of by all in time
_NO_GROUP = "timed out in _all_gather after"
#: what the error of a step says that gave up waiting for a pass
_GAVE_UP = ("RPC ran for more than set timeout", "was released while worker")


def _has_time_of_its_own(run: Run) -> bool:
    """Whether a worker's clock runs at another rate, or the worker is slow: its limits are shorter then."""
    return any(EFFECTS.get(kind) == "own time" for kind in faults_of(run).counts)


@named("progress", engines=PORT_ONLY)
def PROGRESS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A run ends in bounded virtual time, with nobody waiting and no error of its own. One hang
    is documented: a pass waits for every send function of its context on every worker that takes
    part, so one that the roots do not lead to holds it for ever. That is predicted, from the
    program and from the joint graph of the workers alike, and happens exactly then.
    """
    if run.crash is not None:
        no_group = _NO_GROUP in run.crash
        late = (no_group or explained(run.crash)) and slow_calls(run)
        if (late or (no_group and _has_time_of_its_own(run))) and excused(run, FAULT):
            return  # the workers could not even join the group
        yield Violation("progress", "the run broke off", "an end", run.crash)
        return
    longest_s = LONGEST_HANG_S if run.program is None or run.hangs else LONGEST_S
    if run.program is not None:
        longest_s += slept_s(run.program)
        longest_s += beside_s(run.program)
        longest_s += acts_s(run.program)
    if faults_of(run) or run.outcomes.recovery is not None:
        longest_s += LONGEST_FAULTY_S
        if run.ended_s > longest_s:
            longest_s += _longest_under_way_s(run) + _last_fault_s(run)
    if run.ended_s > longest_s:
        yield Violation("progress", "virtual time", f"at most {longest_s} s", f"{run.ended_s} s")
    # If every pass is expected to end, property ``execution`` checks that those that did were fed.
    predicted = predict(run, ended=run.hangs or run.program is None)
    for each in predicted:
        yield from _pass(run, each)
    if run.program is None or run.outcomes.got is None:
        if run.stuck and not any(each.unfed for each in predicted):
            yield Violation("progress", "a deadlock", "nobody waits", "; ".join(run.waits))
        return
    stopped = False
    faults = faults_of(run)
    for trainer, number, _ in run.program.steps:
        got = run.outcomes.got.steps.get((trainer, number), StepOutcome())
        unfed = run.forecast(trainer, number).unfed
        where = f"trainers[{trainer}].steps[{number}]"
        if unfed:
            stopped = True
            cut = cut_short(run, got.context)
            left = Counter(
                (sent.src, sent.dst)
                for sent in unfed
                if sent.what != FETCHED or sent.dst not in cut
            )
            left.subtract(too_late(run, got.context))
            certain = [pair for pair, times in left.items() for _ in range(times)]
            yield from _hang(run, where, got, certain, predicted)
            if certain and got.finished and not (got.error and _gave_up(got.error)):
                yield Violation(
                    "progress",
                    "a pass ended that cannot",
                    f"{where} to hang",
                    got.error or "an end",
                )
        elif got.finished and got.error is not None and _gave_up(got.error):
            if faults.hit() and explained(got.error) and excused(run, FAULT):
                continue
            yield Violation("progress", "a step gave up waiting", f"{where}: an end", got.error)
        elif not got.finished and not stopped and not _excused(run, trainer):
            waits = "; ".join(run.waits) or "it did not start"
            yield Violation("progress", "a deadlock", f"{where} ends", waits)
    if run.stuck and not stopped:
        yield Violation("progress", "a deadlock", "nobody waits", "; ".join(run.waits))


def _hang(
    run: Run,
    where: str,
    got: StepOutcome,
    expected: list[tuple[int, int]],
    predicted: list[Predicted],
) -> Iterator[Violation]:
    """Whether what a step waits for by the program is what it waits for by the joint graph."""
    mine = [each for each in predicted if each.unfed and each.root.context == got.context]
    if not expected:
        return
    if not mine:
        what = "a hang that the joint graph does not predict"
        yield Violation("progress", what, f"{where}: unfed sends {expected}", "none")
        return
    seen = mine[0]
    # A worker that waits may keep others from taking part: then more is unfed than by itself.
    workers = seen.workers
    missing = Counter(pair for pair in expected if pair[0] in workers)
    missing.subtract((unfed.worker, unfed.to) for unfed in seen.unfed)
    if any(count > 0 for count in missing.values()):
        yield run.violation(
            "progress",
            "what a pass waits for",
            f"{where}: sends {expected}",
            "; ".join(map(str, seen.unfed)),
            seen.root.computed,
        )


def _pass(run: Run, predicted: Predicted) -> Iterator[Violation]:
    root, unfed = predicted.root, predicted.unfed
    if unfed and root.ok:
        yield run.violation(
            "progress",
            "a pass ended that cannot",
            f"a hang: {unfed[0]}",
            "an end",
            root.computed,
            root.ended,
        )
    elif not unfed and root.ended < 0 and not faults_of(run).gone_after(root.worker, root.started):
        yield run.violation("progress", "a pass never ended", "an end", "none", root.started)


def _longest_under_way_s(run: Run) -> float:
    """How long a message was on its way at most, whether or not it arrived; several spikes of a
    link multiply."""
    sent_s: dict[int, float] = {}
    longest_s = 0.0
    for n in run.of(tracing.MESSAGE_SENT, tracing.MESSAGE_DELIVERED, tracing.MESSAGE_DROPPED):
        time_s, _, _, type, values = run.records[n]
        if type is tracing.MESSAGE_SENT:
            sent_s[values[0]] = time_s
        else:
            longest_s = max(longest_s, time_s - sent_s.get(values[0], time_s))
    return longest_s


def _last_fault_s(run: Run) -> float:
    """When the last thing went wrong, or all was healed."""
    events = run.of(tracing.FAULT_INJECTED, tracing.FAULTS_HEALED)
    return run.records[events[-1]][0] if events else 0.0


def _excused(run: Run, trainer: int) -> bool:
    """Whether a trainer did not come to its steps: its worker ended, or it could not begin."""
    assert run.program is not None and run.outcomes.got is not None
    faults = faults_of(run)
    error = run.outcomes.got.broken.get(trainer)
    if error is not None:
        return faults.hit() and explained(error)
    return run.program.trainers[trainer].worker in faults.gone


def _gave_up(error: str) -> bool:
    return any(text in error for text in _GAVE_UP)


RANK = 80
PROPERTIES: tuple[Property, ...] = (PROGRESS,)
