"""A run as a path of the model: each event of an RRef is a step that a rule allows.

The events do not tell all. What the model does without one is put in where an event needs it:

- Copies of messages that are lost, doubled or sent again: a message that was sent once may arrive
  whenever its first copy can.
- That a creation begins; and that a deletion arrives whose fork the owner does not know.
- That a fork comes home to an owner that has the value: its parent's CHILD_ACCEPTED tells. Until then
  each fork that was sent may have come home, and brought the program there the owner's object.
- Fetches, but for those that come before the value; that the program on the owner lets its object go.

A table that changes with a step has an event of its own: OWNER_CREATED and OWNER_DELETED have to come
right after the step that the model has for them, and never else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from squall.model.protocol.passes.not_allowed import NotAllowedError
from squall.properties.model.protocol.rules import RULES, Rules
from squall.properties.model.protocol.state import (
    NOBODY,
    OWNER,
    Fork,
    Known,
    Reference,
    Stage,
    Value,
)
from squall.real import tracing
from squall.real.tracing import EventType

#: (created on, local id)
Id = tuple[int, int]
#: the worker that a fork is on its way to, which its announcement does not tell
SOMEWHERE = -2


class Replay:
    """All references of a run, as states of the model.

    Each event is given to the method of :data:`READERS` for its type. What a fault does to a whole
    process is not in the model: references that a worker had part in when it ended, or left its group,
    are not followed any further.
    """

    def __init__(self, rules: Rules = RULES) -> None:
        self._rules = {name: rule.apply for name, rule in rules.items()}
        self.references: dict[Id, Reference] = {}
        #: by fork's id
        self._at: dict[Id, tuple[Reference, Fork]] = {}
        #: users that were made and are in no table yet: worker, owner, worker of the parent
        self._made: dict[Id, tuple[int, int, int]] = {}
        #: forks whose user has just been told that it failed
        self._failing: set[Id] = set()
        #: the event that has to come next, of this reference
        self._due: tuple[EventType, Id] | None = None
        #: the reference whose owner's object, which had no value, is gone: the creation has failed, as
        #: the next event says, or has come when there was no fork any more
        self._dropped: Id | None = None
        #: the reference whose OWNER_CREATED came ahead of the step
        self._entered: Id | None = None
        #: references that are not followed any more, and workers whose events are not read
        self.lost: set[Id] = set()
        self.gone: set[int] = set()
        #: how often each step was taken: rule, stage and knowledge of the fork before it, and value
        self.taken: Counter[tuple[str, Stage, Known, Value]] | None = None

    def take(self, worker: int, type: EventType, values: tuple[Any, ...]) -> None:
        """The next event, of a type in :data:`READERS`. Raises NotAllowedError if it is no step."""
        if self._dropped is not None:
            dropped, self._dropped = self._dropped, None
            if type is not tracing.OWNER_FAILED or values[0] != dropped:
                self._freed_by_creation(dropped)
        if self._due is not None:
            due, self._due = self._due, None
            if due != (type, values[0]):
                raise NotAllowedError(
                    f"{due[0].name} of {due[1]} now", f"{type.name} of {values[0]}"
                )
            if type is tracing.OWNER_CREATED or type is tracing.OWNER_DELETED:
                return  # the step before was the model's
        READERS[type](self, worker, *values)

    def finish(self) -> None:
        """No event comes any more. Raises NotAllowedError if one had to."""
        if self._dropped is not None:
            self._freed_by_creation(self._dropped)
        if self._due is not None:
            raise NotAllowedError(f"{self._due[0].name} of {self._due[1]} now", "no event")

    # -- taking steps -------------------------------------------------------------------------

    def _step(self, name: str, rref: Reference, fork: Fork) -> None:
        """Raises NotAllowedError if the model does not allow it."""
        taken = self.taken
        before = (name, fork.stage, fork.known, rref.value) if taken is not None else None
        if not self._rules[name](rref, fork):
            raise NotAllowedError(f"a state in which {name} is a step", _shown(rref, fork))
        if before is not None and taken is not None:
            taken[before] += 1

    def _note(self, name: str, rref: Reference) -> None:
        """Count a step that is about no fork, or makes one."""
        if self.taken is not None:
            self.taken[name, Stage.UNUSED, Known.UNKNOWN, rref.value] += 1

    def _fork(self, id: Id) -> tuple[Reference, Fork]:
        known = self._at.get(id)
        if known is None:
            raise NotAllowedError(f"fork {id} announced or created before", "neither")
        return known

    def _add(self, name: Id, id: Id, rref: Reference) -> Fork:
        fork = rref.forks[-1]
        self._at[id] = (rref, fork)
        self.references[name] = rref
        return fork

    def _changed(self, name: Id, rref: Reference, listed: bool) -> None:
        """After a step: whether the owner's table has to change right now."""
        if name == self._entered:
            self._entered = None
        elif rref.listed != listed:
            self._due = (tracing.OWNER_DELETED if listed else tracing.OWNER_CREATED, name)

    # -- users ------------------------------------------------------------------------------

    def user_created(self, worker: int, name: Id, id: Id, owner: int, parent: int) -> None:
        self._made[id] = (worker, owner, parent)

    def user_pending(self, worker: int, name: Id, id: Id) -> None:
        made = self._made.pop(id, None)
        if made is None:
            raise NotAllowedError(f"user {id} made on worker {worker}", "none")
        if id not in self._at:
            rref = self.references.get(name) or Reference()
            self._note("create", rref)
            if not self._rules["create"](rref, made[1], worker):
                raise NotAllowedError(f"{name} created once", _shown(rref))
            self._add(name, id, rref)
            return
        rref, fork = self._at[id]
        self._arrives(id, rref, fork, made)
        if fork.stage is not Stage.PENDING:
            raise NotAllowedError(f"fork {id} {fork.stage.name}", "PENDING")

    def user_confirmed(self, worker: int, name: Id, id: Id) -> None:
        rref, fork = self._fork(id)
        failed = id in self._failing
        self._failing.discard(id)
        if fork.stage is Stage.SENT:
            self._arrives(id, rref, fork, self._made.pop(id, None))
        elif fork.parent != NOBODY:
            self._step("request_is_late" if failed else "ack_arrives", rref, fork)
        elif failed and not fork.failed:
            self._step("creation_is_late", rref, fork)
        else:
            self._step("reply_arrives", rref, fork)
        if fork.stage is not Stage.CONFIRMED:
            raise NotAllowedError(f"fork {id} {fork.stage.name}", "CONFIRMED")

    def _arrives(
        self, id: Id, rref: Reference, fork: Fork, made: tuple[int, int, int] | None
    ) -> None:
        """A user is made of a fork that was announced."""
        parent = rref.owner if fork.parent < 0 else rref.forks[fork.parent].at
        if made is None or made[1:] != (rref.owner, parent):
            expected = f"user {id} of owner {rref.owner}, from worker {parent}"
            raise NotAllowedError(
                expected, "none" if made is None else f"of {made[1]}, from {made[2]}"
            )
        fork.at = made[0]
        self._step("arrives", rref, fork)

    def user_timed_out(self, worker: int, name: Id, id: Id) -> None:
        self._failing.add(id)

    def user_discarded(self, worker: int, name: Id, id: Id) -> None:
        self._step("creation_never_leaves", *self._fork(id))

    def user_deleted(self, worker: int, name: Id, id: Id) -> None:
        self._step("drop", *self._fork(id))

    # -- children ---------------------------------------------------------------------------

    def child_pending(self, worker: int, name: Id, id: Id, child: Id) -> None:
        rref, parent = self._fork(id)
        if child in self._at:
            raise NotAllowedError("a new fork", f"fork {child} again")
        self._note("share_user", rref)
        if not self._rules["share_user"](rref, parent, SOMEWHERE):
            raise NotAllowedError("a user that can be shared", _shown(rref, parent))
        self._add(name, child, rref)

    def child_accepted(self, worker: int, child: Id) -> None:
        rref, fork = self._fork(child)
        if fork.stage is Stage.SENT:
            if rref.value is Value.ABSENT:  # coming home it would have made an owner's object
                self._step("take_back", rref, fork)
                return
            fork.at = rref.owner
            self._step("arrives", rref, fork)
        self._step("accept_arrives", rref, fork)

    # -- owners -----------------------------------------------------------------------------

    def fork_added(self, worker: int, name: Id, id: Id) -> None:
        known = self._at.get(id)
        if known is None:
            self._shared_by_owner(worker, name, id)
            return
        rref, fork = known
        listed = rref.listed
        if fork.parent == NOBODY:
            self._end_creation(rref, fork)
        else:
            self._step("request_arrives", rref, fork)
        if fork.known is not Known.KNOWN:
            raise NotAllowedError(f"fork {id} {fork.known.name}", "KNOWN")
        self._changed(name, rref, listed)

    def _shared_by_owner(self, worker: int, name: Id, id: Id) -> None:
        if id in self._made:
            raise NotAllowedError(f"user {id} pending before it is introduced", "it is not")
        rref = self.references.get(name)
        if rref is None:
            rref = Reference()
            self._note("make", rref)
            self._rules["make"](rref, worker)
        listed = rref.listed
        if not rref.handle:
            rref.handle = any(_may_be_home(fork) for fork in rref.forks)
        self._note("share_owner", rref)
        if not self._rules["share_owner"](rref, SOMEWHERE):
            raise NotAllowedError("the owner's object in the hands of its program", _shown(rref))
        self._add(name, id, rref)
        self._changed(name, rref, listed)

    def _end_creation(self, rref: Reference, fork: Fork) -> None:
        """The owner has made the value."""
        if fork.requests:
            self._step("creation_begins", rref, fork)
        self._step("creation_ends", rref, fork)

    def fork_deleted(self, worker: int, name: Id, id: Id) -> None:
        rref, fork = self._fork(id)
        listed = rref.listed
        if fork.stage is Stage.SENT:  # it has come back to the owner, or never left
            fork.at = rref.owner
            self._step("arrives", rref, fork)
        else:
            self._step("delete_arrives", rref, fork)
        self._changed(name, rref, listed)

    def owner_created(self, worker: int, name: Id) -> None:
        rref = self.references.get(name)
        if rref is None:
            # A creation on the owner itself: as if it had sent the reference to itself.
            rref = self.references[name] = Reference()
            self._note("make", rref)
            self._rules["make"](rref, worker)
            self._due = (tracing.FORK_ADDED, name)
            self._entered = name
            return
        if rref.listed:
            raise NotAllowedError(f"an owner of {name} once", "another")
        creator = _creator(rref)
        coming = any(fork.stage is Stage.SENT for fork in rref.forks)
        if rref.value is Value.ABSENT and coming:
            # One of them has come home; which, its parent's CHILD_ACCEPTED will tell.
            rref.value, rref.asked, rref.handle = Value.TOLD, False, True
        elif creator is not None:
            self._finished_without_creator(rref, creator)
        if not rref.listed:
            raise NotAllowedError("no owner's object", _shown(rref))

    def owner_deleted(self, worker: int, name: Id) -> None:
        rref = self._reference(name)
        if rref.value is not Value.TOLD:
            raise NotAllowedError(f"{name} kept for its forks", _shown(rref))
        self._dropped = name

    def _freed_by_creation(self, name: Id) -> None:
        rref = self.references[name]
        creator = _creator(rref)
        if creator is not None:
            self._finished_without_creator(rref, creator)
        if rref.value is not Value.FREED:
            raise NotAllowedError(f"{name} kept until its creation comes", _shown(rref))

    def owner_failed(self, worker: int, name: Id, error: str) -> None:
        rref = self._reference(name)
        creator = _creator(rref)
        if creator is None:
            raise NotAllowedError("a value of this worker's own", "the creation has failed")
        if creator.stage is Stage.DELETED and creator.failed and not rref.making:
            self._step("delete_arrives", rref, creator)
        else:
            if creator.requests:
                self._step("creation_begins", rref, creator)
            self._step("creation_fails", rref, creator)
        if rref.value is not Value.FAILED:
            raise NotAllowedError(f"{name} {rref.value.name}", "FAILED")

    def owner_value_set(self, worker: int, name: Id, error: str | None) -> None:
        """It tells that a creation is over whose value nobody can ask for any more."""
        rref = self.references.get(name)
        creator = None if rref is None else _creator(rref)
        if rref is not None and creator is not None and rref.value in (Value.ABSENT, Value.TOLD):
            self._finished_without_creator(rref, creator)

    def _finished_without_creator(self, rref: Reference, creator: Fork) -> bool:
        """The creation ends, if it can, after its creator is gone: no fork of it is registered."""
        if creator.stage not in (Stage.DELETED, Stage.OVER) or not (
            creator.requests or rref.making
        ):
            return False
        if creator.requests:
            self._step("creation_begins", rref, creator)
        if creator.deletes and creator.known is Known.UNKNOWN:
            self._step("delete_arrives", rref, creator)
        self._step("creation_ends", rref, creator)
        return True

    def owner_pending(self, worker: int, name: Id) -> None:
        rref = self._reference(name)
        if rref.value is not Value.ABSENT or rref.asked:
            raise NotAllowedError(
                "a value that is not there, and that nobody asked for", _shown(rref)
            )
        self._note("fetch_arrives", rref)
        rref.asked = True

    def _reference(self, name: Id) -> Reference:
        rref = self.references.get(name)
        if rref is None:
            raise NotAllowedError(f"{name} made before", "it was not")
        return rref

    # -- processes ----------------------------------------------------------------------------

    def end_of(self, worker: int) -> None:
        """A process has ended, or left its group."""
        self.gone.add(worker)
        for name, rref in self.references.items():
            # A fork that is under way may be on its way there.
            if rref.owner == worker or any(f.at in (worker, SOMEWHERE) for f in rref.forks):
                self.lost.add(name)

    def reference_of(self, type: EventType, values: tuple[Any, ...]) -> Id:
        """The reference that an event is about."""
        name: Id = values[0]
        if type is tracing.CHILD_ACCEPTED and name in self._at:
            rref = self._at[name][0]
            name = next(other for other, each in self.references.items() if each is rref)
        return name

    # -- the end ------------------------------------------------------------------------------

    def tables(self, worker: int) -> tuple[int, ...]:
        """What the worker's tables hold, as TABLES_COUNTED has it: owners, forks, pending users,
        pending children, pending owners, confirmed users."""
        counts = [0] * 6
        for rref in self.references.values():
            if rref.owner == worker:
                counts[0] += rref.listed
                counts[4] += rref.asked
            for fork in rref.forks:
                if rref.owner == worker:
                    counts[1] += fork.known is Known.KNOWN
                if fork.at == worker:
                    counts[2] += fork.stage is Stage.PENDING
                    counts[5] += fork.stage is Stage.CONFIRMED
                if fork.kept and rref.forks[fork.parent].at == worker:
                    counts[3] += 1
        return tuple(counts)


def _creator(rref: Reference) -> Fork | None:
    first = rref.forks[0] if rref.forks else None
    return first if first is not None and first.parent == NOBODY else None


def _may_be_home(fork: Fork) -> bool:
    """Whether it may have come to the owner, without an event."""
    return fork.stage is Stage.SENT or fork.stage is Stage.HOME


def _shown(rref: Reference, fork: Fork | None = None) -> str:
    value = f"the value {rref.value.name}"
    if fork is None:
        return value
    parent = {OWNER: "the owner's", NOBODY: "the creator's"}.get(
        fork.parent, f"fork {fork.parent}'s"
    )
    words = [fork.stage.name, f"{fork.known.name} at its owner"]
    words += ["failed"] if fork.failed else []
    words += ["kept by its parent"] if fork.kept else []
    return f"{parent} fork {', '.join(words)}; {value}"


Reader = Callable[..., None]
#: what reads an event of each type, given the worker and its values
READERS: dict[EventType, Reader] = {
    tracing.USER_CREATED: Replay.user_created,
    tracing.USER_PENDING: Replay.user_pending,
    tracing.USER_CONFIRMED: Replay.user_confirmed,
    tracing.USER_TIMED_OUT: Replay.user_timed_out,
    tracing.USER_DISCARDED: Replay.user_discarded,
    tracing.USER_DELETED: Replay.user_deleted,
    tracing.CHILD_PENDING: Replay.child_pending,
    tracing.CHILD_ACCEPTED: Replay.child_accepted,
    tracing.OWNER_CREATED: Replay.owner_created,
    tracing.OWNER_DELETED: Replay.owner_deleted,
    tracing.OWNER_FAILED: Replay.owner_failed,
    tracing.OWNER_PENDING: Replay.owner_pending,
    tracing.OWNER_VALUE_SET: Replay.owner_value_set,
    tracing.FORK_ADDED: Replay.fork_added,
    tracing.FORK_DELETED: Replay.fork_deleted,
}
