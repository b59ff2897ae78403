"""A state of the RRef protocol: what each worker has in its tables, and what is on its way.

The words are those of PyTorch's note (https://pytorch.org/docs/stable/rpc/rref.html). A value lives
on its *owner*. A *fork* is one reference to it elsewhere: the creator's own, or one that was put
into a message by its *parent*, the owner or a user. What arrives is a *user*, known to the owner or
not yet.

All that belongs to a fork stands in one record, also what other workers hold of it and the messages
about it, since there is one of each: the user on its own worker, its name in the owner's set, the
parent that is kept for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple

#: parents that are no user: the owner, and nobody (the creator's own fork)
OWNER, NOBODY = -1, -2
#: the owner of a reference that nobody has made yet
UNMADE = -1


class Stage(IntEnum):
    """Where a fork has got to."""

    UNUSED = 0
    #: announced by its parent, in a message that has not arrived
    SENT = 1
    #: a user that its owner has not confirmed; kept until then (``pending_users``)
    PENDING = 2
    #: a user that may go when nothing holds it (``confirmed_users``)
    CONFIRMED = 3
    #: gone, and its owner is being told
    DELETED = 4
    #: its owner has heard
    OVER = 5
    #: it has arrived at the owner, which needs no user
    HOME = 6
    #: the message that carried it was lost, and nobody knows
    LOST = 7
    #: the message that was to carry it never left, and its parent knows
    BACK = 8


class Known(IntEnum):
    """What the owner knows of a fork."""

    UNKNOWN = 0
    #: it is in the owner's set (``forks``)
    KNOWN = 1
    #: it is deleted; what arrives later does not bring it back
    GONE = 2


class Value(IntEnum):
    """What the owner has."""

    ABSENT = 0
    #: an owner object without a value: a fork came home before the creation (``owners``)
    TOLD = 1
    #: in ``owners``
    PRESENT = 2
    #: no fork was left
    FREED = 3
    #: the creation was not carried out, or its creator gave it up
    FAILED = 4


@dataclass(slots=True, eq=False)
class Fork:
    """One reference, from its announcement to its end. Counts are of copies on their way."""

    #: the worker that it is on, or goes to
    at: int
    #: the number of its parent among the forks of the reference, OWNER or NOBODY
    parent: int
    stage: Stage
    known: Known = Known.UNKNOWN
    #: its creation or its introduction to the owner has failed; each use of the user raises, once
    #: the user has heard (it is not pending any more)
    failed: bool = False
    #: its parent is kept for it (``pending_children``)
    kept: bool = False
    #: what introduces it to the owner: RREF_FORK_REQUEST, or for the creator's own the creation
    requests: int = 0
    #: answers to that, while the user waits for one
    acks: int = 0
    #: RREF_CHILD_ACCEPT, to the parent
    accepts: int = 0
    #: RREF_USER_DELETE, to the owner
    deletes: int = 0
    #: the user waits for the value, in ``to_here``
    fetching: bool = False

    @property
    def in_use(self) -> bool:
        return self.stage is Stage.PENDING or self.stage is Stage.CONFIRMED

    def confirm(self) -> None:
        """It is not pending any more, and waits for no answer."""
        self.stage = Stage.CONFIRMED
        self.acks = 0


#: the names of what a fork has, and what one fork has
FORK_FIELDS = tuple(each.name for each in fields(Fork))
_fields_of = attrgetter(*FORK_FIELDS)


@dataclass(slots=True, eq=False)
class Reference:
    """A value, and all forks that were ever made of it, in the order in which they were."""

    owner: int = UNMADE
    value: Value = Value.ABSENT
    #: the program on the owner holds the owner's object, which it can share
    handle: bool = False
    #: somebody fetches a value that is not there yet (``pending_owners``)
    asked: bool = False
    #: the owner is at work on the call that creates it
    making: bool = False
    forks: list[Fork] = field(default_factory=list)

    @property
    def listed(self) -> bool:
        """Whether the owner has it in ``owners``."""
        return self.value is Value.TOLD or self.value is Value.PRESENT

    def free_if_last(self) -> None:
        """The owner lets the value go with its last fork."""
        if self.value is Value.PRESENT and not any(f.known is Known.KNOWN for f in self.forks):
            self.value = Value.FREED

    def copy(self) -> Reference:
        forks = [Fork(*_fields_of(fork)) for fork in self.forks]
        return Reference(self.owner, self.value, self.handle, self.asked, self.making, forks)

    def key(self) -> tuple[object, ...]:
        """Equal for equal references."""
        forks = tuple(_fields_of(fork) for fork in self.forks)
        return (self.owner, self.value, self.handle, self.asked, self.making, forks)


class World(NamedTuple):
    """What bounds an exploration."""

    workers: int = 2
    references: int = 1
    #: that may be made of each reference, the creator's own among them
    forks: int = 2
    #: that may happen: see ``FAULTS`` in :mod:`squall.properties.model.protocol.rules`
    faults: int = 0
    #: that users may begin
    fetches: int = 0


@dataclass(slots=True, eq=False)
class State:
    """A state of a world: its references, and the faults and fetches that may still come."""

    references: list[Reference]
    faults: int = 0
    fetches: int = 0

    def copy(self) -> State:
        return State([each.copy() for each in self.references], self.faults, self.fetches)

    def key(self) -> tuple[object, ...]:
        """Equal for equal states."""
        return (self.faults, self.fetches, *(each.key() for each in self.references))


def initial(world: World) -> State:
    """Nothing has been made yet."""
    return State([Reference() for _ in range(world.references)], world.faults, world.fetches)
