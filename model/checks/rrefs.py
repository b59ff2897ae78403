"""RRefs and contexts: nothing is freed too early, and nothing is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from squall.model.checks.excuses import ENDED_PROCESS, FAULT, TOO_LATE, excused
from squall.model.checks.group_departure import fetch_overtaken
from squall.model.checks.rref_allowances import Excuses, excuse_of_context
from squall.model.events.fault_effects import faults_of
from squall.model.events.rref import FETCHES_DISAGREE, RREF_TYPES, Protocol
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.real import tracing

_NONE: Mapping[int, int] = MappingProxyType({})


@named("rrefs", engines=PORT_ONLY, work="both")
def RREFS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """No value is freed while a live fork of it exists anywhere: used by a worker, or in a message
    that may still arrive. Each fork is registered once and deleted once, by its one user; a user is
    kept until its owner knows it and all its children; a function runs once its RRef arguments are
    confirmed; a value is set once, and all who fetch it get the same. When nothing is under way and
    nobody holds a reference, owners, forks, pending users, pending children and pending owners are
    gone. Told by a state machine written from the protocol. After faults that the protocol does not
    make good, what model/checks/rref_allowances.py names may be left; and the tables hold what the state
    machine says, in any case.
    """
    records = run.records
    protocol = Protocol()
    faults = faults_of(run)
    counted = run.of(tracing.TABLES_COUNTED)
    quiet = counted[0] if counted else len(records)
    take = protocol.take
    faulty = bool(faults)
    of_earlier_groups = _of_earlier_groups(run)
    for n in _events(run):
        if n > quiet:
            break
        if n in of_earlier_groups and excused(run, ENDED_PROCESS):
            continue
        _, worker, task, type, values = records[n]
        if faulty:
            if (
                worker in protocol.gone
                and type is not tracing.FAULT_INJECTED
                and excused(run, ENDED_PROCESS)
            ):
                continue
            protocol.now = n
        for breach in take(worker, task, type, values):
            if breach.what == FETCHES_DISAGREE and faults.hit(n) and excused(run, FAULT):
                continue  # it came after its user had given up waiting: nobody sees the answer
            if (
                breach.what == FETCHES_DISAGREE
                and _overtaken(run, n)
                and excused(run, ENDED_PROCESS)
            ):
                continue
            if (
                breach.what == FETCHES_DISAGREE
                and _creation_given_up(run, n)
                and excused(run, TOO_LATE)
            ):
                continue
            if worker in protocol.leaving and excused(run, ENDED_PROCESS):
                continue  # its tables may be cleared already
            yield run.violation("rrefs", breach.what, breach.expected, breach.seen, n)
    yield from _given_up(run)
    if not run.settled:
        return
    if not faults.hit():
        for breach in protocol.left():
            yield run.violation("rrefs", breach.what, breach.expected, breach.seen, *counted[:1])
        yield from _counted(run, "rrefs", range(6))
        return
    excuses = Excuses(run, faults, protocol)
    for breach in protocol.left():
        if breach.about is None or excuses.of(breach.about) is None:
            yield run.violation("rrefs", breach.what, breach.expected, breach.seen, *counted[:1])
    run.judged.excuses = tuple(excuses.used)
    tables = protocol.tables()
    for n in counted:
        _, worker, _, _, values = records[n]
        if (worker in protocol.gone or worker in protocol.leaving) and excused(run, ENDED_PROCESS):
            continue
        for name, expected, seen in zip(
            tracing.TABLES_COUNTED.fields, tables[worker], values, strict=False
        ):
            if expected != seen:
                what = f"{name.replace('_', ' ')} in the tables at the end"
                yield run.violation("rrefs", what, expected, seen, n)


def _overtaken(run: Run, n: int) -> bool:
    """Whether what event ``n`` tells of was asked for by a worker that has left since."""
    _, worker, task, _, _ = run.records[n]
    for at in reversed(run.of(tracing.HANDLER_STARTED)):
        if at < n and run.records[at][1:3] == (worker, task):
            return fetch_overtaken(run, n, *run.records[at][4][:3])
    return False


def _creation_given_up(run: Run, n: int) -> bool:
    """Whether event ``n`` is a fetch by who made the reference, of whom the call that creates the value
    ran out of time before: the reference says so from then on, whatever it gave until then."""
    _, worker, _, _, (rref, _) = run.records[n]
    if rref[0] != worker:
        return False
    calls = {
        run.records[at][4][0]
        for at in run.of(tracing.CALL_STARTED)
        if at < n and run.records[at][1] == worker and rref in run.records[at][4][4]
    }
    return any(
        at < n and run.records[at][1] == worker and run.records[at][4][2] == "timeout"
        for at in run.of(tracing.CALL_ENDED)
        if run.records[at][4][0] in calls
    )


def _of_earlier_groups(run: Run) -> set[int]:
    """Events of requests that a worker was at when it left their group: what comes of them then is
    nothing to the next group, which numbers its references as that one did."""
    left = run.of(tracing.GROUP_LEFT)
    if not left:
        return set()
    records = run.records
    #: by task that has a request: its worker; and of those, the ones whose worker has left since
    at_work: dict[int, int] = {}
    behind: set[int] = set()
    found: set[int] = set()
    for n in range(len(records)):
        _, worker, task, type, _ = records[n]
        if type is tracing.HANDLER_STARTED:
            at_work[task] = worker
        elif type is tracing.HANDLER_ENDED:
            at_work.pop(task, None)
            behind.discard(task)
        elif type is tracing.GROUP_LEFT:
            behind.update(each for each, where in at_work.items() if where == worker)
        elif task in behind:
            found.add(n)
    return found


def _given_up(run: Run) -> Iterator[Violation]:
    """Creations that their owners have given up while the functions of their calls were at work, and
    then came to a value."""
    failed = {run.records[n][4][0]: n for n in run.of(tracing.OWNER_FAILED)}
    if not failed:
        return
    records = run.records
    #: by owner and request: the reference that it is to make
    creating: dict[tuple[int, int, int], Any] = {}
    for n in run.of(tracing.CALL_STARTED):
        _, src, _, _, (id, dst, type, _, about) = records[n]
        names = [each for each in (type, *about) if isinstance(each, str)]
        if len(about) > 1 and any(name.endswith("REMOTE_CALL") for name in names):
            rref = about[-2]  # before its fork; a profiled call begins with an id of its own
            if rref in failed:
                creating[dst, src, id] = rref
    #: by task: the request that it handles; and those whose function has begun
    handled: dict[int, tuple[int, int, int]] = {}
    at_work: set[tuple[int, int, int]] = set()
    for n in run.of(
        tracing.HANDLER_STARTED, tracing.HANDLER_RESUMED, tracing.UDF_STARTED, tracing.HANDLER_ENDED
    ):
        _, worker, task, type, values = records[n]
        if type is tracing.UDF_STARTED:
            request = handled.pop(task, None)
            if request is not None and n < failed[creating[request]]:
                at_work.add(request)
            continue
        request = worker, values[0], values[2]
        if type is not tracing.HANDLER_ENDED:
            if request in creating:
                handled[task] = request
        elif request in at_work and values[3] is None and failed[creating[request]] < n:
            rref = creating[request]
            what = "a creation was given up while it was at work"
            expected = f"{rref} waited for, whose function has begun"
            yield run.violation("rrefs", what, expected, "it is given up", failed[rref], n)


def _events(run: Run) -> list[int]:
    """What the state machine is to read: of requests, only what is about those that bring users."""
    records = run.records
    pending = {records[n][2] for n in run.of(tracing.USER_PENDING)}
    brought = {
        (records[n][1], *records[n][4])
        for n in run.of(tracing.HANDLER_STARTED)
        if records[n][2] in pending
    }
    if not brought:
        return run.of(*RREF_TYPES)
    read = [
        n
        for n in run.of(tracing.HANDLER_STARTED, tracing.HANDLER_ENDED)
        if (records[n][1], *records[n][4][:3]) in brought
    ]
    begun = [n for n in run.of(tracing.UDF_STARTED) if records[n][2] in pending]
    return sorted([*run.of(*RREF_TYPES, tracing.HANDLER_RESUMED), *read, *begun])


@named("contexts", engines=PORT_ONLY, work="both")
def CONTEXTS(run: Run) -> Iterator[Violation]:  # noqa: N802
    """A context is made at most once on a worker and never comes back to life: nothing is recorded
    in it or sent for it after its release there. Once nothing is under way, every worker has
    released every context it had, and every backward pass that began has ended. After faults,
    model/checks/rref_allowances.py names what may be left.
    """
    live: dict[tuple[int, int], int] = {}
    released: dict[tuple[int, int], int] = {}
    records = run.records
    faults = faults_of(run)
    # What comes later is part of the shutdown, in which workers hear that their peers leave.
    quiet = next(iter(run.of(tracing.TABLES_COUNTED)), len(records)) if faults else len(records)
    for n in run.of(
        tracing.CONTEXT_CREATED,
        tracing.CONTEXT_RELEASED,
        tracing.SEND_ATTACHED,
        tracing.RECV_ATTACHED,
        tracing.GRADIENTS_SENT,
        *((tracing.FAULT_INJECTED,) if faults else ()),
    ):
        if n > quiet:
            break
        _, worker, _, type, values = records[n]
        if type is tracing.FAULT_INJECTED:
            if values[0] == "crash":  # all that the process held and knew is gone
                for table in (live, released):
                    for key in [key for key in table if key[0] == values[2]]:
                        del table[key]
            continue
        key = (worker, values[0])
        if type is tracing.CONTEXT_RELEASED:
            if live.pop(key, None) is None:
                yield run.violation(
                    "contexts", "released what is not there", "a context", "none", n
                )
            released[key] = n
            continue
        if key in released:
            what = f"{type.name} after the release"
            yield run.violation("contexts", what, "nothing more", type.name, released[key], n)
        elif type is tracing.CONTEXT_CREATED:
            if key in live:
                yield run.violation("contexts", "made twice", "one", "another", live[key], n)
            live[key] = n
        elif key not in live:
            yield run.violation("contexts", f"{type.name} without a context", "one", "none", n)
    if not run.settled:
        return
    #: by worker: contexts that may be left
    may_be_left: Counter[int] = Counter()
    yield from _left_contexts(run, live, may_be_left)
    yield from _left_passes(run)
    yield from _counted(run, "contexts", range(6, 7), may_be_left)
    yield from _counted(run, "contexts", range(7, 8))


def _left_contexts(
    run: Run, live: Mapping[tuple[int, int], int], may_be_left: Counter[int]
) -> Iterator[Violation]:
    """Contexts that are there at the end. ``live``: the events that made them, by worker and
    context; counts in ``may_be_left`` those for which there is an exception, by worker."""
    faults = faults_of(run)
    excuses = cache(partial(_excuses_of, run))
    for (worker, context), n in live.items():
        if faults.gone_after(worker, n) and excused(run, ENDED_PROCESS):
            continue
        excuse = excuse_of_context(run, worker, context, excuses) if faults.hit() else None
        if excuse is not None:
            may_be_left[worker] += 1
            run.judged.excuses += (excuse.name,)
            continue
        yield run.violation(
            "contexts",
            "a context was left",
            f"context {context} released on worker {worker}",
            "it is there",
            n,
        )


def _excuses_of(run: Run) -> Excuses:
    """Of the references of a run, as they are when nothing is under way."""
    protocol = Protocol()
    quiet = next(iter(run.of(tracing.TABLES_COUNTED)), len(run.records))
    of_earlier_groups = _of_earlier_groups(run)
    for n in _events(run):
        if n > quiet:
            break
        if n not in of_earlier_groups:
            _, worker, task, type, values = run.records[n]
            protocol.now = n
            list(protocol.take(worker, task, type, values))
    return Excuses(run, faults_of(run), protocol)


def _left_passes(run: Run) -> Iterator[Violation]:
    """Backward passes that began and have not ended."""
    faults, records = faults_of(run), run.records
    running: dict[tuple[int, int], int] = {}
    for n in run.of(tracing.PASS_STARTED, tracing.PASS_ENDED):
        _, worker, _, type, values = records[n]
        if type is tracing.PASS_STARTED:
            running[worker, values[0]] = n
        else:
            running.pop((worker, values[0]), None)
    for (worker, context), n in running.items():
        if faults.gone_after(worker, n) and excused(run, ENDED_PROCESS):
            continue
        seen = f"that of context {context} runs"
        yield run.violation("contexts", "a pass was left", "all passes ended", seen, n)


def _counted(
    run: Run, property: str, fields: range, may_be_left: Mapping[int, int] = _NONE
) -> Iterator[Violation]:
    """What is in the tables themselves, whatever the other events said. ``may_be_left``: by worker,
    how many may be left."""
    for n in run.of(tracing.TABLES_COUNTED):
        _, worker, _, _, counted = run.records[n]
        if not any(counted):
            continue
        for field in fields:
            left = counted[field]
            if left > may_be_left.get(worker, 0):
                name = tracing.TABLES_COUNTED.fields[field].replace("_", " ")
                yield run.violation(property, f"{name} in the tables at the end", 0, left, n)


RANK = 30
PROPERTIES: tuple[Property, ...] = (RREFS, CONTEXTS)
