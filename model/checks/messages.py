"""Which messages are due: those of each reference, context and pass, and their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from squall.model.checks.excuses import ENDED_PROCESS, FAULT, NO_END, OWN_TIME, excused
from squall.model.events.fault_effects import faults_of, own_time
from squall.model.events.resends import Key, resends_of
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.events.unwrapped import called
from squall.model.one_process.requests import is_known, requests_of
from squall.model.program.acts.act import CONTEXT, every
from squall.model.program.acts.expected import Limited, told_alone
from squall.model.program.stories import ACTS
from squall.real import tracing

_RESPONSES = ("_RET", "_RESP", "_ACK", "EXCEPTION")
_FORK, _ACCEPT, _DELETE = "RREF_FORK_REQUEST", "RREF_CHILD_ACCEPT", "RREF_USER_DELETE"
_RELEASE, _GRADIENTS = "CLEANUP_AUTOGRAD_CONTEXT_REQ", "BACKWARD_AUTOGRAD_REQ"


@named("messages", engines=PORT_ONLY, work="both")
def MESSAGES(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Each message is due, and each that is due is sent, copies of what has to be heard left out.
    A user that was not made by its owner tells the owner of itself, once, and whoever sent it the
    reference, once; when it goes, it tells the owner, once. A worker that releases a context tells
    each worker that it has sent a message of it to, once, and nobody else, unless one of them ended
    or cannot be heard of. A recv function that is run sends gradients once. Each request is taken up
    once and answered once. The calls of acts that are given a limit of time have it. Counted by reference, context and pass, so that what is sent in vain
    shows, and what is missing without harm.
    """
    if (run.stuck or run.crash is not None) and excused(run, NO_END):
        return  # what ends it is no part of it
    yield from _Counts(run).violations()
    yield from _answers(run)
    yield from _requests(run)
    yield from _limited(run)


class _Counts:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.faults = faults_of(run)
        counted = run.of(tracing.TABLES_COUNTED)
        #: from here on workers shut down
        self.quiet = counted[0] if counted else len(run.records)
        #: how often each message was begun, copies left out, and the event
        self.begun: Counter[Key] = Counter()
        self.events: dict[Key, int] = {}
        own = own_time(run)
        for key, chains in resends_of(run).chains.items():
            if key[0] in own and excused(run, OWN_TIME):
                chains = chains[:1]  # by its clock, all are one
            for chain in chains:
                if chain.copies[0].event < self.quiet:
                    self.begun[key] += 1
                    self.events[key] = chain.copies[0].event
        #: how often each is due, and the event for which it is
        self.due: Counter[Key] = Counter()
        self.reasons: dict[Key, int] = {}
        #: that it is sent need not be so, but if, then once
        self.possible: Counter[Key] = Counter()

    def violations(self) -> Iterator[Violation]:
        self._references()
        self._releases()
        self._gradients()
        for key, times in self.begun.items():
            most = max(self.due[key], self.possible[key])
            if times > most:
                yield self._wrong(key, "too often" if most else "though it is not due", most, times)
        for key, times in self.due.items():
            if self.begun[key] < times and not self._need_not(key):
                yield self._wrong(key, "too rarely", times, self.begun[key])

    def _wrong(self, key: Key, how: str, expected: int, seen: int) -> Violation:
        src, dst, type, about = key
        cited = [n for n in (self.reasons.get(key), self.events.get(key)) if n is not None]
        return self.run.violation(
            "messages",
            f"a {type} was sent {how}",
            f"{expected} from worker {src} to {dst} about {about}",
            seen,
            *cited,
        )

    def _need_not(self, key: Key) -> bool:
        """Whether whoever was to send it could not."""
        n = self.reasons[key]
        gone = self.faults.gone_after(key[0], n) or self.faults.is_gone(key[0], n)
        return (gone and excused(self.run, ENDED_PROCESS)) or not self.run.settled

    def _is_due(self, key: Key, n: int) -> None:
        self.due[key] += 1
        self.reasons[key] = n

    # -- references -------------------------------------------------------------------------

    def _references(self) -> None:
        records = self.run.records
        owners: dict[Any, int] = {}
        #: by fork: whose pending child it is, or was
        parents: dict[Any, int] = {}
        told: dict[Any, Key] = {}
        for n in self.run.of(
            tracing.USER_CREATED,
            tracing.USER_PENDING,
            tracing.USER_CONFIRMED,
            tracing.USER_DISCARDED,
            tracing.USER_DELETED,
            tracing.CHILD_PENDING,
        ):
            if n > self.quiet:
                break
            _, worker, _, type, values = records[n]
            if type is tracing.CHILD_PENDING:
                child = values[2]
                parents[child] = worker
                # A fork that comes home to the owner makes no user there.
                continue
            rref, fork = values[:2]
            if type is tracing.USER_CREATED:
                owners[worker, fork] = values[2]
            owner = owners[worker, fork]
            if type is tracing.USER_PENDING and fork in parents:
                told[fork] = key = (worker, owner, _FORK, (rref, fork))
                self._is_due(key, n)
            elif type is tracing.USER_DISCARDED and fork in told:
                self.due[told[fork]] -= 1
            elif type is tracing.USER_CONFIRMED and fork in told:
                self._is_due((worker, parents[fork], _ACCEPT, (fork,)), n)
            elif type is tracing.USER_DELETED:
                self._is_due((worker, owner, _DELETE, (rref, fork)), n)
        for key in self.begun:
            _, dst, kind, about = key
            if kind == _ACCEPT and parents.get(about[0]) == dst:
                self.possible[key] = 1

    # -- contexts ---------------------------------------------------------------------------

    def _releases(self) -> None:
        records = self.run.records
        known: dict[tuple[int, int], dict[int, None]] = {}
        released: dict[tuple[int, int], int] = {}
        for n in self.run.of(
            tracing.KNOWN_WORKER_ADDED,
            tracing.KNOWN_WORKER_REMOVED,
            tracing.CONTEXT_RELEASED,
            *((tracing.FAULT_INJECTED,) if self.faults else ()),
        ):
            if n > self.quiet:
                break
            _, worker, _, type, values = records[n]
            context = worker, values[0]
            if type is tracing.FAULT_INJECTED:
                if values[0] == "crash":  # a new process knows of nobody
                    known = {key: who for key, who in known.items() if key[0] != values[2]}
                continue
            if type is tracing.KNOWN_WORKER_ADDED:
                known.setdefault(context, {})[values[1]] = None
            elif type is tracing.KNOWN_WORKER_REMOVED:
                known.get(context, {}).pop(values[1], None)
            else:
                released[context] = n
                for to in known.pop(context, {}):
                    self._is_due((worker, to, _RELEASE, (values[0],)), n)
        # In a script a process may end by itself.
        ended = self.run.script is not None and self.run.of(tracing.GROUP_LEFT)
        told = self.begun if self.faults.hit() or ended else ()
        for key in told:  # whoever did not hear of a release has told nobody either
            src, _, kind, about = key
            if kind == _RELEASE and (src, about[0]) in released and excused(self.run, FAULT):
                self.possible[key] = self.due[key] + 1

    # -- passes -----------------------------------------------------------------------------

    def _gradients(self) -> None:
        records = self.run.records
        for n in self.run.of(tracing.GRADIENTS_SENT):
            _, worker, _, _, (context, message, to) = records[n]
            self._is_due((worker, to, _GRADIENTS, (context, message)), n)
        for n in self.run.of(tracing.CALL_STARTED):
            _, worker, _, _, (_, dst, type, _, about) = records[n]
            if type == _GRADIENTS:
                key = worker, dst, type, about
                self.begun[key] += 1
                self.events[key] = n


def _answers(run: Run) -> Iterator[Violation]:
    """Requests that are taken up, or answered, more than once."""
    records = run.records
    doubled = {
        records[n][4][7] for n in run.of(tracing.FAULT_INJECTED) if records[n][4][0] == "duplicate"
    }
    #: (sender, receiver, id, whether it is a request): the number of the first copy
    first: dict[tuple[int, int, int, bool], int] = {}
    for n in run.of(tracing.MESSAGE_SENT):
        number, src, dst, type, id = records[n][4][:5]
        if id < 0:  # of a process group, which has none
            continue
        sent = src, dst, id, not type.endswith(_RESPONSES)
        if sent not in first:
            first[sent] = number
        elif first[sent] not in doubled:
            what = "a request was sent twice" if sent[3] else "a request was answered twice"
            yield run.violation(
                "messages", what, "once", f"{type} {id} from worker {src} to {dst}", n
            )
    taken_up: set[tuple[int, int, int]] = set()
    for n in run.of(tracing.HANDLER_STARTED):
        _, worker, _, _, (src, type, id) = records[n]
        if (worker, src, id) in taken_up:
            what = "a request was taken up twice"
            yield run.violation("messages", what, "once", f"{type} {id} from worker {src}", n)
        taken_up.add((worker, src, id))


#: what the requests of the API are, by their types
_REQUESTS = {
    "PYTHON_CALL": "call",
    "SCRIPT_CALL": "call",
    "PYTHON_REMOTE_CALL": "creation",
    "SCRIPT_REMOTE_CALL": "creation",
    "PYTHON_RREF_FETCH_CALL": "fetch",
    "SCRIPT_RREF_FETCH_CALL": "fetch",
    "RREF_BACKWARD_REQ": "backward",
}


def _requests(run: Run) -> Iterator[Violation]:
    """Whether each call of the API was one request, where a program goes through."""
    program, expected, counted = run.program, run.outcomes.expected, run.of(tracing.TABLES_COUNTED)
    if program is None or expected is None or not counted or run.of(tracing.FAULT_INJECTED):
        return
    ended = expected.steps.values()
    if any(step.error or step.first_error or step.failed for step in ended):
        return
    if run.outcomes.recovery is not None or not is_known(program):
        return
    if run.hangs and excused(run, NO_END):
        return  # who waits for ever makes no further calls
    leader = min(run.names, key=lambda worker: run.names[worker], default=0)
    records = run.records
    if any(records[n][4][1] is not None for n in run.of(tracing.UDF_ENDED)):
        return  # a function that nobody waits for was cut short, by a release for instance
    if any(records[n][4][2] == "timeout" for n in run.of(tracing.CALL_ENDED)):
        return  # who waited for it does not go on as if it had come to its end
    due = requests_of(program, leader=leader, handshakes=run.conditions.handshakes)
    made: Counter[tuple[int, int, str]] = Counter()
    for n in run.of(tracing.CALL_STARTED):
        if n > counted[0]:
            break
        _, worker, _, _, (_, dst, type, _, about) = records[n]
        what = _REQUESTS.get(called(type, about))
        if what is not None:
            made[worker, dst, what] += 1
    if made == due:
        return
    for key in {**due, **made}:
        if made[key] != due[key]:
            src, dst, what = key
            where = f"from worker {src} to {dst}"
            yield Violation(
                "messages", f"requests of the kind {what}", f"{due[key]} {where}", str(made[key])
            )


def _limited(run: Run) -> Iterator[Violation]:
    """Whether each call of acts was made with its limit of time, where nothing else that goes on beside
    steps has any."""
    program, got, counted = run.program, run.outcomes.got, run.of(tracing.TABLES_COUNTED)
    if program is None or got is None or not counted or run.of(tracing.FAULT_INJECTED):
        return
    if run.outcomes.recovery is not None or program.endings:
        return  # what becomes of calls there depends on when others leave
    if run.hangs and excused(run, NO_END):
        return
    due: Counter[Limited] = Counter()
    for trainer, number, step in program.steps:
        for index, story in enumerate(step.stories):
            if story.kind != ACTS or (trainer, number, "stories", index) not in got.beside:
                return
            if any(act.kind == CONTEXT for act in every(story.acts)):
                return  # nobody knows which of the calls in a context came before its release
            due.update(told_alone(story.acts, program.trainers[trainer].worker).limited)
    if not due:
        return
    limits_s = {limit_s for _, _, limit_s in due}
    records = run.records
    made: Counter[Limited] = Counter()
    for n in run.of(tracing.CALL_STARTED):
        _, worker, _, _, (_, dst, _, limit_s, _) = records[n]
        if n < counted[0] and limit_s in limits_s:
            made[worker, dst, limit_s] += 1
    if made == due:
        return
    for key in {**due, **made}:
        if made[key] != due[key]:
            src, dst, limit_s = key
            what, where = f"calls with a limit of {limit_s:g} s", f"from worker {src} to {dst}"
            yield Violation("messages", what, f"{due[key]} {where}", str(made[key]))


RANK = 34
PROPERTIES: tuple[Property, ...] = (MESSAGES,)
