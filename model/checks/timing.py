"""When things happen: each resend, each limit of time, and nothing for no reason."""

from __future__ import annotations

from collections.abc import Iterator

from squall.model.checks.excuses import ENDED_PROCESS, FAULT, NO_END, OWN_TIME, excused
from squall.model.events.fault_effects import RETRIES, faults_of, own_time
from squall.model.events.resends import SAME_S, Chain, resends_of
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.program.durations import sleeps
from squall.model.program.operations import failing_calls
from squall.model.program.program import Program, beside
from squall.real import tracing

#: calls that nobody gives a limit of their own
_DEFAULT = frozenset({*RETRIES, "BACKWARD_AUTOGRAD_REQ", "RREF_BACKWARD_REQ"})
#: the only calls that have one in a program without stories: those that start a step on its trainer
_STARTS = "PYTHON_CALL"
#: how much earlier than at its time a timeout may be noticed, in seconds
_SLACK_S = 1e-4
#: faults after which a message that is due may not be made at all
_NOT_MADE = frozenset({"allocation", "raise", "crash", "shutdown", "restart", "leave"})


@named("timing", engines=PORT_ONLY, work="both")
def TIMING(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A message that has to be heard is sent again 1, 1, 1.5, 2.25, … seconds after its last copy
    as long as none was answered, and not after that, when the calls of all its copies are over; six
    times at most, 21 times what tells of a release. A call times out when its limit is over and not
    before. Control messages and gradients have the default limit, and so has all that a program
    calls or creates outside of stories. Where nobody sleeps and nothing goes wrong, time passes
    only while a message is under way or somebody waits for one of these.
    """
    if (run.stuck or run.crash is not None) and excused(run, NO_END):
        return  # what ends it is no part of it
    own = own_time(run)
    yield from _resent(run, own)
    yield from _limits(run, own)
    if run.program is not None and not faults_of(run) and not _takes_time(run.program):
        yield from _instants(run)


def _resent(run: Run, own: set[int]) -> Iterator[Violation]:
    resends, records = resends_of(run), run.records
    counted = run.of(tracing.TABLES_COUNTED)
    quiet_s = records[counted[0]][0] if counted else 0.0
    faults = faults_of(run)
    every_copy = not _NOT_MADE.intersection(faults.counts)
    # Of a group that a worker has left nothing is sent again, and nobody waits for what is not.
    leaves = run.program is not None and bool(run.program.endings)
    for (worker, dst, type, _), chains in resends.chains.items():
        if worker in own and excused(run, OWN_TIME):
            continue
        # Where a process ended its releases are told by others too, and their copies are mixed.
        mixed = type == "CLEANUP_AUTOGRAD_CONTEXT_REQ" and bool(faults.gone)
        for other in () if mixed and excused(run, ENDED_PROCESS) else chains[1:]:
            if _is_resend(run, worker, dst, type, other.copies[0].time_s):
                due = [f"{chain.due_s:.6f}" for chain in chains if chain is not other]
                yield run.violation(
                    "timing",
                    f"a {type} was sent again at another time",
                    f"a copy at {' or '.join(due)} s",
                    f"one at {other.copies[0].time_s:.6f} s",
                    chains[0].copies[0].event,
                    other.copies[0].event,
                )
        for chain in chains:
            heard_s = resends.heard_s(chain)
            if not mixed:
                yield from _after_its_answer(run, chain, heard_s)
                yield from _ended_by_its_answer(run, chain, heard_s)
            if chain.is_last or leaves or not run.settled or chain.due_s + SAME_S > quiet_s:
                continue
            if heard_s is not None and heard_s < chain.due_s + SAME_S:
                continue
            if not every_copy and excused(run, FAULT):
                continue
            yield run.violation(
                "timing",
                f"a {type} was not sent again",
                f"copy {len(chain.copies)} at {chain.due_s:.6f} s",
                "none",
                chain.copies[-1].event,
            )


def _is_resend(run: Run, worker: int, dst: int, type: str, time_s: float) -> bool:
    """Whether such a message was to be sent again at that time."""
    records = run.records
    return any(
        records[n][1] == worker
        and records[n][4][:2] == (dst, type)
        and abs(records[n][0] + records[n][4][3] - time_s) < SAME_S
        for n in run.of(tracing.CALL_RETRIED)
    )


def _after_its_answer(run: Run, chain: Chain, heard_s: float | None) -> Iterator[Violation]:
    if heard_s is None:
        return
    for copy in chain.copies[1:]:
        if copy.time_s > heard_s + SAME_S:
            yield run.violation(
                "timing",
                f"a {chain.key[2]} was sent again after its answer",
                f"nothing after {heard_s:.6f} s",
                f"a copy at {copy.time_s:.6f} s",
                copy.event,
            )


def _ended_by_its_answer(run: Run, chain: Chain, heard_s: float | None) -> Iterator[Violation]:
    # What waited for a reference to be confirmed runs before the other copies are looked at.
    if heard_s is None or chain.key[2] == "RREF_FORK_REQUEST":
        return
    ended = resends_of(run).ended
    for copy in chain.copies:
        end = ended.get((chain.key[0], copy.id))
        if end is not None and copy.time_s < heard_s and end[0] > heard_s + SAME_S:
            yield run.violation(
                "timing",
                f"a copy of a {chain.key[2]} waits on after its answer",
                f"its call over at {heard_s:.6f} s",
                f"at {end[0]:.6f} s",
                copy.event,
            )


def _limits(run: Run, own: set[int]) -> Iterator[Violation]:
    records = run.records
    started: dict[tuple[int, int], int] = {}
    changes = run.of(tracing.TIMEOUT_SET)
    program = run.program
    plain = program is not None and not any(step.stories for _, _, step in program.steps)
    for n in run.of(tracing.CALL_STARTED):
        _, worker, _, _, (id, _, type, limit_s, _) = records[n]
        started[worker, id] = n
        if (type in _DEFAULT or (plain and type != _STARTS)) and (
            changes or limit_s != run.conditions.rpc_timeout_s
        ):
            wanted_s, *others_s = _defaults(run, n)
            if wanted_s is not None and limit_s != wanted_s and limit_s not in others_s:
                what = f"the limit of a {type}"
                yield run.violation("timing", what, f"{wanted_s} s", f"{limit_s} s", n)
    refused: set[tuple[int, int]] | None = None
    for n in run.of(tracing.CALL_ENDED):
        time_s, worker, _, _, (id, _, outcome) = records[n]
        if outcome != "timeout" or (worker in own and excused(run, OWN_TIME)):
            continue
        began = started.get((worker, id))
        if began is None:
            continue
        limit_s = records[began][4][3]
        took_s = time_s - records[began][0]
        if limit_s and took_s >= limit_s - _SLACK_S:
            continue
        if refused is None:
            # Its function met a timeout of its own, and said so.
            refused = {
                (records[m][4][2], records[m][4][4])
                for m in run.of(tracing.MESSAGE_DELIVERED)
                if records[m][4][3] == "EXCEPTION"
            }
        if (worker, id) not in refused:
            what = "a call timed out before its time"
            yield run.violation("timing", what, f"after {limit_s} s", f"{took_s:.6f} s", began, n)


def _defaults(run: Run, n: int) -> list[float | None]:
    """The default limit where event ``n`` happened, in seconds, and those that had just been
    replaced: whoever makes a call may have looked before, up to the last event of its task."""
    records = run.records
    _, worker, task, _, _ = records[n]
    looked = next((at for at in range(n - 1, -1, -1) if records[at][2] == task), n)
    found = [run.conditions.rpc_timeout_s]
    for change in run.of(tracing.TIMEOUT_SET):
        if change > n:
            break
        if records[change][1] == worker:
            if change <= looked:
                found.clear()
            found.insert(0, records[change][4][0])
    return found


def _takes_time(program: Program) -> bool:
    """Whether the program's own code waits, or nobody knows."""
    return (
        sleeps(program)
        or bool(failing_calls(program) or program.endings)
        or any(
            beside(step) or any(backward.every_s is not None for backward in step.backwards)
            for _, _, step in program.steps
        )
    )


def _instants(run: Run) -> Iterator[Violation]:
    """Moments at which something happens for no reason."""
    records = run.records
    reasons = {0.0}
    for n in run.of(tracing.MESSAGE_DELIVERED, tracing.MESSAGE_DROPPED, tracing.FAULTS_HEALED):
        reasons.add(records[n][0])
    last_s = 0.0
    for n, record in enumerate(records):
        time_s = record[0]
        if time_s == last_s or time_s in reasons:
            continue
        last_s = time_s
        if any(abs(due_s - time_s) < SAME_S for due_s in _due(run)):
            continue
        what = "something happened for no reason"
        seen = f"{records[n][3].name} at {time_s:.6f} s"
        yield run.violation("timing", what, "a message, or a limit of time that is over", seen, n)
        return


def _due(run: Run) -> Iterator[float]:
    for n in run.of(tracing.CALL_STARTED):
        time_s, _, _, _, values = run.records[n]
        yield time_s + max(values[3], 0.0)
    for chains in resends_of(run).chains.values():
        for chain in chains:
            for copy in chain.copies[1:]:
                yield copy.time_s


RANK = 33
PROPERTIES: tuple[Property, ...] = (TIMING,)
