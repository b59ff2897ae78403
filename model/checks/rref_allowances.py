"""What the RRef protocol cannot promise: a short list, by name, each with its reason.

The protocol assumes that no process ends and that no way stays closed for longer than its retries.
Beyond that an owner may keep a value for a user that will never be heard of again, or a user a
reference for a child; and a context stays where the only way to it ended. Such a leftover is
accepted only where the events show one of the causes below for that very reference or context;
everything else that is left is a violation. A test makes each exception happen
(properties/model/checks/test_faults.py) and fails when one is not needed any more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from squall.model.events.fault_effects import RETRIES, FaultEffects, faults_of
from squall.model.events.rref import Protocol
from squall.model.events.rref_state import Fork, Id, UserStage, Value
from squall.model.events.run import Run
from squall.real import tracing

#: an id of a context counts in these; what is above is the worker that made it
_COUNTER_BITS = 48


#: a task is at a request from one of these events on
_AT_WORK = (tracing.HANDLER_STARTED, tracing.HANDLER_RESUMED)


class Excuse(NamedTuple):
    """Why something may be left."""

    name: str
    reason: str


LOST_FORK = Excuse(
    "lost fork",
    "the message that carried the reference was lost, or nobody read it: its owner or parent, "
    "which announced it before sending, cannot tell that from a slow one",
)
ENDED_USER = Excuse(
    "ended user",
    "the process that had the reference, or that it was sent to, ended without a word: the owner "
    "does not know which workers have which forks",
)
UNHEARD_DELETE = Excuse(
    "unheard delete",
    "the owner did not hear of the deletion in any of its retries",
)
UNHEARD_ACCEPT = Excuse(
    "unheard acceptance",
    "the parent did not hear of the acceptance in any of its retries",
)
ENDED_OWNER = Excuse(
    "ended owner",
    "the reference is to a value of an earlier process of the owner's rank, which its ids do not "
    "tell: the new process waits for a creation that was before its time",
)
ENDED_FORWARDER = Excuse(
    "ended forwarder",
    "a worker that had heard of the release, or of the end of the process that made it, ended before "
    "the next one, which it told, had: both are passed on by whoever hears of them, and nobody else "
    "knows who is behind",
)
HELD_PARENT = Excuse("held parent", "a child that is excused itself keeps it")
HELD_ARGUMENT = Excuse(
    "held argument",
    "a call has it among its arguments, or got it in answer to a call of its own, and is not over: "
    "its function waits for the value of another one of them, which is excused itself",
)
HELD_CONTEXT = Excuse(
    "held context",
    "the call whose function made it is not over: it waits for the value of one of its arguments, "
    "which is excused itself",
)
HELD_VALUE = Excuse(
    "held by a value",
    "the call that brought it made a value of the same worker, or was given a reference to one, that "
    "is excused itself: that value may refer to it",
)

EXCEPTIONS: tuple[Excuse, ...] = (
    LOST_FORK,
    ENDED_USER,
    UNHEARD_DELETE,
    UNHEARD_ACCEPT,
    ENDED_OWNER,
    ENDED_FORWARDER,
    HELD_PARENT,
    HELD_ARGUMENT,
    HELD_CONTEXT,
    HELD_VALUE,
)


class Excuses:
    """Finds the excuse of what is left at the end of a run with faults."""

    def __init__(self, run: Run, faults: FaultEffects, protocol: Protocol) -> None:
        self.run = run
        self.faults = faults
        self.protocol = protocol
        #: the names of those that were needed
        self.used: dict[str, None] = {}
        #: by task: the messages that it sent
        self._sent: dict[int, list[int]] | None = None
        #: users of which it is being asked whether a value holds them: values may hold each other
        self._asked: set[Id] = set()
        #: when the tables were counted
        self._quiet = next(iter(run.of(tracing.TABLES_COUNTED)), len(run.records))
        #: (worker that tried, worker it tried to reach, type) of what was tried in vain
        self._unheard = {
            (run.records[n][1], *run.records[n][4][:2])
            for n in run.of(tracing.CALL_RETRIED)
            if run.records[n][4][2] >= RETRIES.get(run.records[n][4][1], 0)
        }

    def of(self, left: Fork | Value) -> Excuse | None:
        """Why it may be left; None: it may not."""
        excuse = self._of_value(left) if isinstance(left, Value) else self._of_fork(left)
        if excuse is not None:
            self.used[excuse.name] = None
        return excuse

    def _of_value(self, value: Value) -> Excuse | None:
        if value.lost:
            return ENDED_OWNER
        known = [fork for fork in value.forks.values() if fork.known]
        if value.present and known:
            excuses = [self._of_fork(fork) for fork in known]
            return None if None in excuses else excuses[0]
        # The creator gave the creation up. Its RREF_USER_DELETE tells the owner, and is not sent
        # yet: something that is left too still holds the creator's reference.
        creators = (fork for fork in value.forks.values() if fork.in_use and fork.failed)
        if not value.set and any(self._of_fork(fork) is HELD_PARENT for fork in creators):
            return HELD_PARENT
        # The call that is to make it waits for the value of one of its arguments.
        if not value.set:
            n = self._creation(value)
            if n is not None and self._waits_for_an_argument(n, value.worker, value.id):
                return HELD_ARGUMENT
        # The creator gave the creation up, and its RREF_USER_DELETE never arrived.
        if not value.set and self._gave_up(value.id[0], value.worker, "RREF_USER_DELETE"):
            return UNHEARD_DELETE
        return ENDED_USER if self._creator_ended_unheard(value) else None

    def _creator_ended_unheard(self, value: Value) -> bool:
        """Whether the creator of a value that its owner waits for ended without a connection to it: what
        it had sent, if anything, never left, and nothing that the owner sees has closed."""
        if value.set or value.worker < 0:
            return False
        records, creator = self.run.records, value.id[0]
        asked = (n for n in self.run.of(tracing.OWNER_PENDING) if records[n][4][0] == value.id)
        since = next(asked, None)
        if since is None:
            return False
        end = next((n for n in self.faults.gone.get(creator, ()) if n > since), None)
        return end is not None and not _connected(self.run, value.worker, creator, end)

    def _of_fork(self, fork: Fork) -> Excuse | None:
        value = self.protocol.values[fork.rref]
        if value.lost:
            return ENDED_OWNER
        if fork.worker >= 0 and self.faults.gone_after(fork.worker, fork.taken_up):
            return ENDED_USER
        if fork.worker < 0 and self._sent_to_ended(fork):
            return ENDED_USER
        if fork.stage is UserStage.NONE and self._lost(fork):
            return LOST_FORK
        if fork.pending_child_of >= 0:
            # A fork that arrived on its owner makes no user there.
            taken_up_on = value.worker if fork.stage is UserStage.NONE else fork.worker
            if self._gave_up(taken_up_on, fork.pending_child_of, "RREF_CHILD_ACCEPT"):
                return UNHEARD_ACCEPT
        if fork.stage is UserStage.DELETED and self._gave_up(
            fork.worker, value.worker, "RREF_USER_DELETE"
        ):
            return UNHEARD_DELETE
        if fork.in_use and any(
            child.pending_child_of == fork.worker and self._of_fork(child) is not None
            for child in value.forks.values()
            if child.parent == fork.id
        ):
            return HELD_PARENT
        if fork.in_use and self._held_by_a_call(fork):
            return HELD_ARGUMENT
        if fork.in_use and self._held_by_a_value(fork):
            return HELD_VALUE
        return None

    def _held_by_a_value(self, fork: Fork) -> bool:
        """Whether a value that is left, with an excuse, may refer to it: one that the call which
        brought it made, or was given."""
        n = self._carrier(fork)
        if n is None or fork.id in self._asked:
            return False
        self._asked.add(fork.id)
        about = self.run.records[n][4][6]
        made = [value for id, value in self.protocol.values.items() if id in about]
        given = [
            self.protocol.values[other.rref]
            for other in self.protocol.forks.values()
            if self._carrier(other) == n
        ]
        found = any(
            value.worker == fork.worker and value.present and self._of_value(value) is not None
            for value in (*made, *given)
            if value.id != fork.rref
        )
        self._asked.discard(fork.id)
        return found

    def _held_by_a_call(self, fork: Fork) -> bool:
        """Whether the call that brought it, or that got it in answer to a call of its own, is at
        work, and was given an RRef of its own worker whose value will not come."""
        n = self._carrier(fork)
        if n is None:
            return False
        calls = (n, *self._asked_by(n))
        return any(self._waits_for_an_argument(call, fork.worker, fork.rref) for call in calls)

    def _asked_by(self, n: int) -> list[int]:
        """The event of sending the request whose handler made the call that message ``n`` answers;
        nothing if that is no answer, or no handler has asked."""
        records = self.run.records
        _, src, dst, _, id, *_ = records[n][4]
        asked = [
            records[at][2]
            for at in self.run.of(tracing.CALL_STARTED)
            if at < n and records[at][1] == dst and records[at][4][:2] == (id, src)
        ]
        served = {
            (records[at][4][0], records[at][4][2])
            for at in self.run.of(*_AT_WORK)
            if records[at][1] == dst and records[at][2] in asked
        }
        return [
            at
            for at in self.run.of(tracing.MESSAGE_SENT)
            if records[at][4][2] == dst and (records[at][4][1], records[at][4][4]) in served
        ]

    def of_context(self, context: int) -> bool:
        """Whether the call in whose function a context was made waits for the value of an
        argument, which will not come."""
        records = self.run.records
        made = next(n for n in self.run.of(tracing.CONTEXT_CREATED) if records[n][4][0] == context)
        _, worker, task, _, _ = records[made]
        served = [
            (records[n][4][0], records[n][4][2])
            for n in self.run.of(*_AT_WORK)
            if n < made and records[n][1:3] == (worker, task)
        ]
        return any(
            self._waits_for_an_argument(n, worker, None)
            for n in self.run.of(tracing.MESSAGE_SENT)
            if n < made
            and records[n][4][2] == worker
            and (records[n][4][1], records[n][4][4]) in served
        )

    def _waits_for_an_argument(self, n: int, worker: int, rref: Id | None) -> bool:
        """Whether the call of this event of sending it is at work on ``worker``, and was given
        another RRef than ``rref`` of which the worker has no value to expect."""
        if not self._at_work(n):
            return False
        return any(
            other.rref != rref
            and self._carrier(other) == n
            and (value := self.protocol.values[other.rref]).worker == worker
            and (value.present or value.asked_early)
            and self._of_value(value) is not None
            for other in self.protocol.forks.values()
        )

    def _creation(self, value: Value) -> int | None:
        """The event of sending the call that is to make a value."""
        for n in self.run.of(tracing.MESSAGE_SENT):
            _, _, dst, type, _, _, about = self.run.records[n][4]
            if dst != value.worker or value.id not in about:
                continue
            if any(
                isinstance(each, str) and each.endswith("REMOTE_CALL") for each in (type, *about)
            ):
                return n
        return None

    def _at_work(self, n: int) -> bool:
        """Whether the request of this event of sending it was taken up and has not been
        answered."""
        records = self.run.records
        _, src, dst, _, id, *_ = records[n][4]

        def happened(type: tracing.EventType) -> bool:
            return any(
                n < at < self._quiet
                and records[at][1] == dst
                and (records[at][4][0], records[at][4][2]) == (src, id)
                for at in self.run.of(type)
            )

        return happened(tracing.HANDLER_STARTED) and not happened(tracing.HANDLER_ENDED)

    def _gave_up(self, src: int, dst: int, type: str) -> bool:
        return (src, dst, type) in self._unheard

    def _carrier(self, fork: Fork) -> int | None:
        """The event of sending the message that the fork was announced for, if it was sent."""
        if fork.announced < 0:
            return None
        if self._sent is None:
            self._sent = {}
            for n in self.run.of(tracing.MESSAGE_SENT):
                self._sent.setdefault(self.run.records[n][2], []).append(n)
        sent = self._sent.get(fork.announced_by, [])
        at = bisect_right(sent, fork.announced)
        return sent[at] if at < len(sent) else None

    def _sent_to_ended(self, fork: Fork) -> bool:
        n = self._carrier(fork)
        return n is not None and self.faults.gone_after(self.run.records[n][4][2], n)

    def _lost(self, fork: Fork) -> bool:
        n = self._carrier(fork)
        return n is not None and self.run.records[n][4][0] in self.faults.dropped


def excuse_of_context(
    run: Run, worker: int, context: int, excuses: Callable[[], Excuses]
) -> Excuse | None:
    """Why a worker may still have a context at the end of a run; None: it may not. ``excuses`` makes
    those of the run's references."""
    records = run.records
    faults = faults_of(run)
    told = {
        records[n][1]: n
        for n in run.of(tracing.KNOWN_WORKER_ADDED)
        if records[n][4] == (context, worker)
    }
    for n in run.of(tracing.CONTEXT_RELEASED):
        _, other, _, _, (released,) = records[n]
        if released == context and other in told and faults.gone_after(other, n):
            return ENDED_FORWARDER
    maker = context >> _COUNTER_BITS
    if all(faults.gone_after(other, n) for other, n in told.items()) and (
        faults.gone_after(maker, min(told.values(), default=len(records)))
        and not _connected(run, worker, maker)
    ):
        return ENDED_FORWARDER
    if told and all(_ended_unheard(run, other, n, maker, context) for other, n in told.items()):
        return ENDED_FORWARDER
    return HELD_CONTEXT if excuses().of_context(context) else None


def _ended_unheard(run: Run, other: int, n: int, maker: int, context: int) -> bool:
    """Whether a worker ended after event ``n``, and the maker of a context had not heard of that when it
    released it: so it told that worker's next process, which does not know whom the one before reached."""
    records = run.records
    end = next((at for at in faults_of(run).gone.get(other, ()) if at > n), None)
    release = next(
        (
            at
            for at in run.of(tracing.CONTEXT_RELEASED)
            if records[at][1] == maker and records[at][4][0] == context
        ),
        None,
    )
    if end is None or release is None or not end < release:
        return False
    return not any(
        end < at < release and records[at][1] == maker and records[at][4][0] == "peer lost"
        for at in run.of(tracing.TASK_STARTED)
    )


def _connected(run: Run, one: int, other: int, before: int | None = None) -> bool:
    """Whether a message went from one worker to the other, ever or before an event, so that each hears
    when the other's process ends."""
    pair = {one, other}
    return any(
        set(run.records[n][4][1:3]) == pair
        for n in run.of(tracing.MESSAGE_SENT)
        if before is None or n < before
    )
