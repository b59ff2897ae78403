"""The RRef protocol as a state machine over the events of a run.

Written from the protocol: an owner keeps a value while the set of forks it knows is not empty.
A fork is announced before it can be used, by whoever makes it: the owner registers it at once, a
user remembers it as a pending child. It is taken up by a user elsewhere, or on the owner itself
by the value. It ends when its user is deleted, which the owner hears of. So while a fork is on
its way or in use, somebody the owner knows must be alive: the fork itself, or the user that made
it.

Feed :meth:`Protocol.take` the events in order; it answers with what each of them breaks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from squall.model.events.rref_state import Breach, Fork, Id, UserStage, Value
from squall.real import tracing
from squall.real.tracing import EventType

FETCHES_DISAGREE = "fetches disagree"


class Protocol:
    """The state of all RRefs in a cluster."""

    def __init__(self) -> None:
        self.values: dict[Id, Value] = {}
        self.forks: dict[Id, Fork] = {}
        #: by task: the users that the request it reads brought, and by request the same
        self._reading: dict[int, list[Fork]] = {}
        self._requests: dict[tuple[int, int, int], list[Fork]] = {}
        #: workers that a fault has ended, and those that it lets shut RPC down
        self.gone: set[int] = set()
        self.leaving: set[int] = set()
        #: the number of the next event; whoever feeds a run with faults keeps it
        self.now = -1
        #: what the event that is looked at breaks
        self._breaches: list[Breach] = []
        #: by worker: what has to happen next in its tables of values, to this one, and what is wrong
        #: otherwise
        self._due: dict[int, tuple[EventType, Id, str]] = {}

    def take(
        self, worker: int, task: int, type: EventType, values: tuple[Any, ...]
    ) -> list[Breach]:
        """The next event, of a type in :data:`TYPES`; others say nothing about RRefs."""
        self._breaches = []
        if self._due and worker in self._due and type in _OF_OWNERS:
            due, rref, what = self._due.pop(worker)
            if type is not due or values[0] != rref:
                self._broken(what, f"{due.name} of {rref} now", f"{type.name} of {values[0]}")
        _RULES[type](self, worker, task, *values)
        return self._breaches

    def _broken(self, what: str, expected: str, seen: str) -> None:
        self._breaches.append(Breach(what, expected, seen))

    # -- users ----------------------------------------------------------------------------

    def _value(self, rref: Id) -> Value:
        value = self.values.get(rref)
        if value is None:
            value = self.values[rref] = Value(rref)
        return value

    def _fork(self, rref: Id, fork: Id) -> Fork:
        known = self.forks.get(fork)
        if known is None:
            known = self.forks[fork] = Fork(fork, rref)
            self._value(rref).forks[fork] = known
        return known

    def user_created(
        self, worker: int, task: int, rref: Id, fork: Id, owner: int, parent: int
    ) -> None:
        announced = fork in self.forks
        user = self._fork(rref, fork)
        was, user.stage, user.worker = user.stage, UserStage.NEW, worker
        user.taken_up = self.now
        if was is not UserStage.NONE:
            self._broken("a fork was taken up twice", f"fork {fork} once", f"it is {was.value}")
        if worker == owner:
            self._broken("a user on its owner", "the value itself", f"user {fork}")
        value = self._value(rref)
        if parent == worker and not announced:
            value.creator = user
        if announced and not value.lost:
            sender = value.worker if user.parent is None else self.forks[user.parent].worker
            if value.worker not in (-1, owner) or parent != sender:
                self._broken(
                    "a user of another owner or parent",
                    f"user {fork} of owner {value.worker}, from worker {sender}",
                    f"of owner {owner}, from worker {parent}",
                )
        # The creator makes its own; every other fork was announced before it was sent.
        if parent != worker and not announced:
            self._broken(
                "a fork nobody announced",
                f"fork {fork} registered at owner {owner} or pending child of worker {parent}",
                "neither",
            )

    def user_pending(self, worker: int, task: int, rref: Id, fork: Id) -> None:
        user = self._fork(rref, fork)
        self._expect(user, UserStage.NEW)
        user.stage = UserStage.PENDING
        reading = self._reading.get(task)
        if reading is not None:
            reading.append(user)

    def user_confirmed(self, worker: int, task: int, rref: Id, fork: Id) -> None:
        user = self._fork(rref, fork)
        if user.lost:
            return
        self._expect(user, UserStage.NEW, UserStage.PENDING)
        user.stage = UserStage.CONFIRMED
        if not user.failed and not user.added:
            self._broken(
                "a user confirmed that its owner does not know",
                f"fork {fork} registered at its owner",
                "it is not",
            )

    def user_timed_out(self, worker: int, task: int, rref: Id, fork: Id) -> None:
        self._fork(rref, fork).failed = True

    def user_discarded(self, worker: int, task: int, rref: Id, fork: Id) -> None:
        user = self._fork(rref, fork)
        self._expect(user, UserStage.PENDING)
        user.stage, user.failed = UserStage.DELETED, True

    def user_deleted(self, worker: int, task: int, rref: Id, fork: Id) -> None:
        user = self._fork(rref, fork)
        if user.lost:
            return
        if user.stage is UserStage.DELETED:
            self._broken("a fork was deleted twice", f"fork {fork} once", "another time")
        elif user.stage is UserStage.NONE:
            self._broken("a fork was deleted that nobody has", f"user {fork}", "none")
        elif user.stage is not UserStage.CONFIRMED and not user.failed:
            self._broken(
                "a user was deleted before its owner confirmed it",
                f"user {fork} kept until it is confirmed",
                f"it is {user.stage.value}",
            )
        for child in user.keeps:
            self._broken(
                "a parent was deleted before its child was accepted",
                f"user {fork} kept for its child {child}",
                "it is deleted",
            )
        user.stage = UserStage.DELETED

    def _expect(self, user: Fork, *stages: UserStage) -> None:
        if user.stage not in stages:
            expected = " or ".join(stage.value for stage in stages)
            self._broken(
                "the order of a user's stages", f"user {user.id} {expected}", user.stage.value
            )

    # -- children -------------------------------------------------------------------------

    def child_pending(self, worker: int, task: int, rref: Id, fork: Id, child: Id) -> None:
        parent = self._fork(rref, fork)
        if not parent.in_use:
            self._broken("a fork of a user that is gone", f"user {fork} alive", parent.stage.value)
        if child in self.forks:
            self._broken("an id was used twice", "a new fork", f"fork {child}")
        new = self._fork(rref, child)
        new.announced_by, new.announced = task, self.now
        new.parent, new.pending_child_of = fork, worker
        parent.keeps.add(child)

    def child_accepted(self, worker: int, task: int, child: Id) -> None:
        accepted = self.forks.get(child)
        if accepted is None or accepted.pending_child_of != worker:
            self._broken("a child accepted that is not pending", "a pending child", str(child))
            return
        self._not_kept(accepted)
        if accepted.stage in (UserStage.NEW, UserStage.PENDING):
            has = "has not confirmed" if accepted.added else "does not know"
            what = f"a child accepted that its owner {has}"
            self._broken(what, f"user {child} confirmed first", f"it is {accepted.stage.value}")

    def _not_kept(self, child: Fork) -> None:
        """Nobody keeps a parent for it any more."""
        child.pending_child_of = -1
        if child.parent is not None:
            self.forks[child.parent].keeps.discard(child.id)

    # -- owners ---------------------------------------------------------------------------

    def owner_created(self, worker: int, task: int, rref: Id) -> None:
        value = self._value(rref)
        if value.present:
            self._broken("an owner was made twice", f"one of {rref}", "another")
        value.present, value.worker, value.asked_early = True, worker, False

    def owner_pending(self, worker: int, task: int, rref: Id) -> None:
        value = self._value(rref)
        over = value.present or value.deleted or value.refused
        if (over or value.asked_early) and not value.lost:
            seen = "it was asked for before" if value.asked_early else "it is there, or gone"
            self._broken("a value was waited for in vain", f"{rref} still to come", seen)
        value.asked_early, value.worker = True, worker

    def owner_failed(self, worker: int, task: int, rref: Id, error: str) -> None:
        value = self._value(rref)
        if value.creator is not None and value.creator.added and not value.lost:
            self._broken("a creation failed that was over", f"the value of {rref}", error)
        value.asked_early, value.refused, value.worker = False, True, worker

    def owner_value_set(self, worker: int, task: int, rref: Id, error: str | None) -> None:
        value = self._value(rref)
        # A creation that comes after its creator gave it up finds the error in its place, and whoever comes after
        # the value has been freed that it is gone.
        gone = error is not None and value.deleted > 0 and not value.present
        again = value.set > 0 and (error is None or value.error is None) and not gone
        value.set += 1
        value.error = error
        # A reply brings it to whoever asked, whether or not the owner keeps it.
        value.asked_early = False
        if again:
            self._broken("a value was set twice", f"one value of {rref}", "another")

    def owner_deleted(self, worker: int, task: int, rref: Id) -> None:
        value = self._value(rref)
        if not value.present:
            self._broken("a value was freed that is not there", f"an owner of {rref}", "none")
        value.present = False
        value.deleted += 1
        if value.refused:  # the creation failed: there is nothing to keep
            return
        if not value.set:
            creator = value.creator
            if creator is not None and creator.stage is not UserStage.DELETED and not value.lost:
                what = "an owner that waits for its creation was freed"
                self._due[worker] = (tracing.OWNER_FAILED, rref, what)
            return
        for fork in value.forks.values():
            if fork.known:
                self._broken(
                    "a value was freed while its owner knew a fork",
                    f"{rref} kept for fork {fork.id}",
                    "it is freed",
                )
            elif fork.failed:
                continue
            elif fork.in_use:
                self._broken(
                    "a value was freed while a user was alive",
                    f"{rref} kept for user {fork.id} on worker {fork.worker}",
                    "it is freed",
                )
            elif fork.stage is UserStage.NONE and fork.pending_child_of >= 0:
                parent = None if fork.parent is None else self.forks.get(fork.parent)
                if parent is not None and parent.failed:
                    continue  # none of its retries reached the owner
                self._broken(
                    "a value was freed while a fork was on its way",
                    f"{rref} kept for fork {fork.id} of worker {fork.pending_child_of}",
                    "it is freed",
                )

    def fork_added(self, worker: int, task: int, rref: Id, fork: Id) -> None:
        announced = fork in self.forks
        added = self._fork(rref, fork)
        value = self._value(rref)
        if not announced:
            added.announced_by, added.announced = task, self.now
        elif added.stage in (UserStage.NONE, UserStage.NEW) and not value.lost:
            seen = f"it is {added.stage.value}"
            self._broken("a fork was registered before its user", f"user {fork} pending", seen)
        if not value.present and (not announced or added is value.creator):
            self._due[worker] = (tracing.OWNER_CREATED, rref, "a fork of a value without an owner")
        added.added += 1
        if added.known or added.removed:
            seen = "it is there" if added.known else "it was deleted"
            self._broken("a fork was registered twice", f"fork {fork} once", seen)
        value.known += not added.known
        added.known = True
        if value.worker < 0:
            value.worker = worker

    def fork_deleted(self, worker: int, task: int, rref: Id, fork: Id) -> None:
        removed = self._fork(rref, fork)
        value = self._value(rref)
        lost = value.lost  # what was known of it is lost too
        if not removed.known and not lost:
            self._broken("a fork was deleted that is not known", f"fork {fork}", "none")
        value.known -= removed.known
        removed.known = False
        if value.present and value.set and not value.known and not value.refused and not lost:
            what = "a value was kept after its last fork"
            self._due[worker] = (tracing.OWNER_DELETED, rref, what)
        removed.removed += 1
        if not lost and removed.in_use and not removed.failed:
            self._broken(
                "a fork was deleted while its user was alive",
                f"fork {fork} of worker {removed.worker} kept",
                "it is deleted",
            )

    def rref_fetched(self, worker: int, task: int, rref: Id, error: str | None) -> None:
        value = self._value(rref)
        if value.fetched is None:
            value.fetched = (error,)
        elif value.fetched != (error,):
            self._broken(
                FETCHES_DISAGREE, _outcome(value.fetched[0]) + f" of {rref}", _outcome(error)
            )

    # -- requests and their arguments ---------------------------------------------------------

    def handler_started(self, worker: int, task: int, src: int, type: str, id: int) -> None:
        self._reading[task] = self._requests[worker, src, id] = []

    def handler_resumed(self, worker: int, task: int, src: int, type: str, id: int) -> None:
        self._reading.pop(task, None)  # another request, which waits
        self._confirmed(self._requests.pop((worker, src, id), []))

    def handler_ended(
        self, worker: int, task: int, src: int, type: str, id: int, error: str | None
    ) -> None:
        self._requests.pop((worker, src, id), None)

    def udf_started(self, worker: int, task: int, name: str) -> None:
        self._confirmed(self._reading.pop(task, []))

    def _confirmed(self, arguments: list[Fork]) -> None:
        for user in arguments:
            if user.stage is UserStage.PENDING:
                self._broken(
                    "a function ran before its arguments were confirmed",
                    f"fork {user.id} known to its owner",
                    "it is pending",
                )

    # -- processes that end ---------------------------------------------------------------

    def fault(
        self, worker: int, task: int, kind: str, item: object, target: int, *rest: object
    ) -> None:
        """A process ended, and lost all it had, or was restarted; other faults change nothing."""
        if kind == "restart":
            self.gone.discard(target)
        elif kind == "crash":
            self.gone.add(target)
            self._forget(target)
        elif kind in ("shutdown", "leave"):
            self.leaving.add(target)

    def group_left(self, worker: int, task: int) -> None:
        """The worker goes on, in another group, without the references that it had."""
        self.leaving.discard(worker)
        for fork in self.forks.values():
            fork.lost |= fork.worker == worker and fork.in_use
        self._forget(worker)

    def _forget(self, worker: int) -> None:
        """All that a worker had is gone."""
        self._due.pop(worker, None)
        for value in self.values.values():
            if value.worker == worker:
                value.present, value.asked_early, value.lost = False, False, True
                value.set = 0  # a new process of that rank may be asked for it, and give an error
                value.known = 0
                for fork in value.forks.values():
                    fork.known = False
        for fork in self.forks.values():
            if fork.worker == worker and fork.in_use:
                fork.stage = UserStage.DELETED
            if fork.pending_child_of == worker:
                self._not_kept(fork)

    # -- the end ----------------------------------------------------------------------------

    def tables(self) -> dict[int, list[int]]:
        """What the tables of each worker hold: owners, forks, pending users, pending children, pending
        owners, confirmed users."""
        tables: defaultdict[int, list[int]] = defaultdict(lambda: [0] * 6)
        for value in self.values.values():
            of_owner = tables[value.worker]
            of_owner[0] += value.present
            of_owner[1] += value.known
            of_owner[4] += value.asked_early
        for fork in self.forks.values():
            of_user = tables[fork.worker]
            of_user[2] += fork.stage is UserStage.PENDING
            of_user[5] += fork.stage is UserStage.CONFIRMED
            tables[fork.pending_child_of][3] += 1
        return tables

    def left(self) -> Iterable[Breach]:
        """What is left, for when nothing is under way and nobody holds a reference."""
        for worker in self.leaving:
            self._forget(worker)
        for due, rref, what in self._due.values():
            yield Breach(what, f"{due.name} of {rref} now", "no event")
        for value in self.values.values():
            if value.present:
                yield Breach("an owner was left", f"{value.id} freed", "it is there", value)
            if value.asked_early:
                what = "a pending owner was left"
                yield Breach(what, f"{value.id} created", "it was not", value)
        for fork in self.forks.values():
            if fork.known:
                seen = "its owner knows it"
                yield Breach("a fork was left", f"fork {fork.id} deleted", seen, fork)
            if fork.in_use:
                seen = f"it is {fork.stage.value} on worker {fork.worker}"
                yield Breach("a user was left", f"user {fork.id} deleted", seen, fork)
            if fork.pending_child_of >= 0:
                seen = f"it is pending on worker {fork.pending_child_of}"
                what = "a pending child was left"
                yield Breach(what, f"child {fork.id} accepted", seen, fork)


def _outcome(error: str | None) -> str:
    return "a value" if error is None else f"the error {error!r}"


_Rule = Callable[..., None]
_RULES: dict[EventType, _Rule] = {
    tracing.USER_CREATED: Protocol.user_created,
    tracing.USER_PENDING: Protocol.user_pending,
    tracing.USER_CONFIRMED: Protocol.user_confirmed,
    tracing.USER_TIMED_OUT: Protocol.user_timed_out,
    tracing.USER_DISCARDED: Protocol.user_discarded,
    tracing.USER_DELETED: Protocol.user_deleted,
    tracing.CHILD_PENDING: Protocol.child_pending,
    tracing.CHILD_ACCEPTED: Protocol.child_accepted,
    tracing.OWNER_CREATED: Protocol.owner_created,
    tracing.OWNER_PENDING: Protocol.owner_pending,
    tracing.OWNER_FAILED: Protocol.owner_failed,
    tracing.OWNER_VALUE_SET: Protocol.owner_value_set,
    tracing.OWNER_DELETED: Protocol.owner_deleted,
    tracing.FORK_ADDED: Protocol.fork_added,
    tracing.FORK_DELETED: Protocol.fork_deleted,
    tracing.RREF_FETCHED: Protocol.rref_fetched,
    tracing.HANDLER_STARTED: Protocol.handler_started,
    tracing.HANDLER_RESUMED: Protocol.handler_resumed,
    tracing.HANDLER_ENDED: Protocol.handler_ended,
    tracing.UDF_STARTED: Protocol.udf_started,
    tracing.FAULT_INJECTED: Protocol.fault,
    tracing.GROUP_LEFT: Protocol.group_left,
}
#: what changes an owner's tables, under one lock
_OF_OWNERS = frozenset(
    {
        tracing.OWNER_CREATED,
        tracing.OWNER_PENDING,
        tracing.OWNER_FAILED,
        tracing.OWNER_DELETED,
        tracing.FORK_ADDED,
        tracing.FORK_DELETED,
    }
)
#: the events that the state machine reads
TYPES = tuple(_RULES)
#: those of them that matter also where no request brings a user
RREF_TYPES = tuple(
    type
    for type in TYPES
    if type
    not in (
        tracing.HANDLER_STARTED,
        tracing.HANDLER_RESUMED,
        tracing.HANDLER_ENDED,
        tracing.UDF_STARTED,
    )
)
