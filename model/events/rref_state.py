"""What the state machine of the RRef protocol knows of a reference: of each fork, and of what the owner has."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

#: (created on, local id)
Id = tuple[int, int]


class UserStage(Enum):
    """Of a user: a reference on a worker that is not the owner."""

    NONE = "not there"
    NEW = "made"
    PENDING = "pending"
    CONFIRMED = "confirmed"
    DELETED = "deleted"


class Breach(NamedTuple):
    """A rule that an event breaks."""

    what: str
    expected: str
    seen: str
    #: what is left at the end, if that is what breaks the rule
    about: Fork | Value | None = None


_IN_USE = (UserStage.NEW, UserStage.PENDING, UserStage.CONFIRMED)


@dataclass(slots=True)
class Fork:
    """One reference, from its announcement to its end."""

    id: Id
    rref: Id
    #: the parent's fork, None if the owner made it or it is the creator's own
    parent: Id | None = None
    #: the worker whose pending child it is, until it is accepted; -1: none
    pending_child_of: int = -1
    stage: UserStage = UserStage.NONE
    #: the worker that has the user
    worker: int = -1
    #: whether it is in the owner's set of forks, and how often it was added and removed
    known: bool = False
    added: int = 0
    removed: int = 0
    #: its creation or its introduction to the owner has failed
    failed: bool = False
    #: the task that announced it, and when (the number of the event)
    announced_by: int = -1
    announced: int = -1
    #: when a user took it up
    taken_up: int = -1
    #: its worker has left the group, and what still comes of it there says nothing
    lost: bool = False
    #: pending children of this user
    keeps: set[Id] = field(default_factory=set)

    @property
    def in_use(self) -> bool:
        return self.stage in _IN_USE


@dataclass(slots=True)
class Value:
    """What the owner has of one RRef."""

    id: Id
    worker: int = -1
    present: bool = False
    asked_early: bool = False
    deleted: int = 0
    set: int = 0
    error: str | None = None
    #: what fetches saw, and the first one
    fetched: tuple[str | None] | None = None
    forks: dict[Id, Fork] = field(default_factory=dict)
    #: how many of them the owner knows
    known: int = 0
    #: that of the worker that had it made elsewhere
    creator: Fork | None = None
    #: the process that had it has ended
    lost: bool = False
    #: its creation failed: whoever asks for it gets the error
    refused: bool = False
