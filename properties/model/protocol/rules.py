"""The steps of the RRef protocol, one function each.

A rule changes a reference and says whether it could: what stands before its first assignment is its
guard. Nothing else changes a state, and a step is one rule: what a process does between two messages
cannot be interrupted by another step of the same process, since one lock guards its tables.

What is abstracted:

- One exchange of a request that is repeated until it is answered (``RREF_FORK_REQUEST``,
  ``RREF_CHILD_ACCEPT``, ``RREF_USER_DELETE``) is never given up but for a request's, which is a fault of
  its own. The answers to the other two change no table. One that is lost makes its sender repeat what
  has been heard, and to the receiver that is a second copy of it: such copies are in the model.
- The creation and the message that carries a fork are taken up at most once: agents let go of a second
  copy of a call.
- A fork's number stands for its id. A user goes as soon as the program lets it and nothing holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from squall.properties.model.protocol.faults import FAULTS
from squall.properties.model.protocol.state import (
    NOBODY,
    OWNER,
    UNMADE,
    Fork,
    Known,
    Reference,
    Stage,
    Value,
)

# -- what programs do ---------------------------------------------------------------------------


def create(rref: Reference, owner: int, creator: int) -> bool:
    """``rpc.remote`` to another worker. The creator has a user at once, kept until the answer."""
    if rref.owner != UNMADE or owner == creator:
        return False
    rref.owner = owner
    rref.forks.append(Fork(creator, NOBODY, Stage.PENDING, requests=1))
    return True


def make(rref: Reference, owner: int) -> bool:
    """``RRef(value)``: an object on its owner, which enters ``owners`` when it is first shared."""
    if rref.owner != UNMADE:
        return False
    rref.owner = owner
    rref.handle = True
    return True


def share_user(rref: Reference, parent: Fork, at: int) -> bool:
    """A user is put into a message, and kept until the child says that the owner knows it. One whose
    creation failed raises instead, if that was known when its worker began to put it there."""
    if not parent.in_use:
        return False
    rref.forks.append(Fork(at, rref.forks.index(parent), Stage.SENT, kept=True))
    return True


def share_owner(rref: Reference, at: int) -> bool:
    """The owner puts a reference into a message. It knows the fork before that leaves."""
    if not rref.handle:
        return False
    rref.forks.append(Fork(at, OWNER, Stage.SENT, Known.KNOWN))
    if not rref.listed:
        rref.value = Value.PRESENT
    return True


def fetch(rref: Reference, fork: Fork) -> bool:
    """``to_here``: the user is held until it has its answer."""
    if not fork.in_use or fork.fetching:
        return False
    fork.fetching = True
    return True


def drop(rref: Reference, fork: Fork) -> bool:
    """The last use of a user is over: it goes, and the owner is told. One that is not confirmed, or
    whose child is not accepted, is held by its worker's tables."""
    number = rref.forks.index(fork)
    held = fork.fetching or any(child.kept and child.parent == number for child in rref.forks)
    if fork.stage is not Stage.CONFIRMED or held:
        return False
    fork.stage = Stage.DELETED
    fork.deletes += 1
    return True


def let_go(rref: Reference) -> bool:
    """The program on the owner has no use for the owner's object any more."""
    if not rref.handle:
        return False
    rref.handle = False
    return True


# -- messages that arrive -----------------------------------------------------------------------


def creation_begins(rref: Reference, fork: Fork) -> bool:
    """The owner runs the function whose result is to be the value. It may take long."""
    if fork.parent != NOBODY or not fork.requests:
        return False
    fork.requests -= 1
    rref.making = True
    return True


def creation_ends(rref: Reference, fork: Fork) -> bool:
    """The owner has the value, and knows the creator's fork. If that is gone already, and nobody
    else has one, nobody will ask for the value."""
    if fork.parent != NOBODY or not rref.making:
        return False
    rref.making = False
    _answer(fork)
    if rref.value is Value.FAILED:
        return True
    if fork.known is Known.UNKNOWN:
        fork.known = Known.KNOWN
    rref.value = Value.PRESENT
    rref.asked = False
    rref.free_if_last()
    return True


def creation_fails(rref: Reference, fork: Fork) -> bool:
    """The owner cannot run it: all who ask for the value are told so, and its creator. (What the
    function raises is a value like any other.)"""
    if fork.parent != NOBODY or not rref.making:
        return False
    rref.making = False
    fork.failed = True
    _answer(fork)
    _give_up(rref)
    return True


def reply_arrives(rref: Reference, fork: Fork) -> bool:
    """The creator hears of its creation."""
    if fork.parent != NOBODY or not fork.acks:
        return False
    fork.confirm()
    return True


def creation_times_out(rref: Reference, fork: Fork) -> bool:
    """Nothing of it is under way any more. The user goes like any other, and tells the owner then."""
    waits = fork.parent == NOBODY and fork.stage is Stage.PENDING
    if not waits or fork.requests or fork.acks or rref.making:
        return False
    fork.failed = True
    fork.confirm()
    return True


def arrives(rref: Reference, fork: Fork) -> bool:
    """A message has brought a fork. The owner needs none: it has the value, or is told of one. A user
    whose parent is the owner is known there. Any other is introduced, and kept until that is heard."""
    if fork.stage is not Stage.SENT:
        return False
    if fork.at == rref.owner:
        fork.stage = Stage.HOME
        rref.handle = True
        if fork.parent == OWNER:
            fork.known = Known.GONE
            rref.free_if_last()
        else:
            fork.accepts += 1
            if rref.value is Value.ABSENT:
                rref.value = Value.TOLD
                rref.asked = False
    elif fork.parent == OWNER:
        fork.stage = Stage.CONFIRMED
    else:
        fork.stage = Stage.PENDING
        fork.requests += 1
    return True


def request_arrives(rref: Reference, fork: Fork) -> bool:
    """The owner knows the fork, unless it was deleted before. Whether there is a value is not asked."""
    if fork.parent == NOBODY or not fork.requests:
        return False
    fork.requests -= 1
    if fork.known is Known.UNKNOWN:
        fork.known = Known.KNOWN
    _answer(fork)
    return True


def ack_arrives(rref: Reference, fork: Fork) -> bool:
    """The owner knows the user: only now is its parent told."""
    if fork.parent == NOBODY or not fork.acks:
        return False
    fork.confirm()
    fork.accepts += 1
    return True


def accept_arrives(rref: Reference, fork: Fork) -> bool:
    """The parent need not be kept for this child any more."""
    if not fork.accepts:
        return False
    fork.accepts -= 1
    fork.kept = False
    return True


def delete_arrives(rref: Reference, fork: Fork) -> bool:
    """The owner forgets the fork, for good, and lets the value go with the last one. Its creator, if
    it never heard of the creation, gives that up, unless it has begun."""
    if not fork.deletes:
        return False
    fork.deletes -= 1
    fork.stage = Stage.OVER
    fork.known = Known.GONE
    rref.free_if_last()
    if fork.parent == NOBODY and fork.failed and not rref.making:
        _give_up(rref)
    return True


def fetch_arrives(rref: Reference, fork: Fork) -> bool:
    """It is answered by the value or by what became of it. Before that is there it waits."""
    if not fork.fetching or rref.value is Value.TOLD:
        return False
    if rref.value is Value.ABSENT:
        if rref.asked:
            return False
        rref.asked = True
        return True
    fork.fetching = False
    return True


def fetch_times_out(rref: Reference, fork: Fork) -> bool:
    """Whoever waits for a value that does not come gives up in the end. (A creation may be lost, and
    its creator, held by a child that was lost as well, never tells the owner that it will not come.)"""
    if not fork.fetching or rref.value not in (Value.ABSENT, Value.TOLD):
        return False
    fork.fetching = False
    return True


def _answer(fork: Fork) -> None:
    if fork.stage is Stage.PENDING:  # the agent lets go of an answer that nobody waits for
        fork.acks += 1


def _give_up(rref: Reference) -> None:
    if rref.value is Value.ABSENT or rref.value is Value.TOLD:
        rref.value = Value.FAILED
        rref.asked = False


# -- what is sent again -------------------------------------------------------------------------


def repeat_request(rref: Reference, fork: Fork) -> bool:
    """It, or its answer, was lost."""
    waits = fork.parent != NOBODY and fork.stage is Stage.PENDING
    if not waits or fork.requests or fork.acks:
        return False
    fork.requests += 1
    return True


def repeat_accept(rref: Reference, fork: Fork) -> bool:
    """It was lost."""
    told = fork.stage in (Stage.CONFIRMED, Stage.DELETED, Stage.OVER, Stage.HOME)
    if not told or not fork.kept or fork.accepts:
        return False
    fork.accepts += 1
    return True


def repeat_delete(rref: Reference, fork: Fork) -> bool:
    """It was lost."""
    if fork.stage is not Stage.DELETED or fork.deletes:
        return False
    fork.deletes += 1
    return True


# -- all of them --------------------------------------------------------------------------------


class Kind(Enum):
    """Why a step is taken, and whether it is taken in the end."""

    #: the program may or may not
    CHOICE = "choice"
    #: it happens in the end, unless another step makes it impossible
    FAIR = "fair"
    #: it takes one of the faults that may come
    FAULT = "fault"


class Shape(Enum):
    """What a rule is about, and with that its arguments after the reference."""

    #: (owner, creator)
    CREATION = "creation"
    #: (owner)
    MAKING = "making"
    #: (parent, at)
    SHARING = "sharing"
    #: (at)
    OWNER_SHARING = "sharing by the owner"
    #: ()
    REFERENCE = "reference"
    #: (fork)
    FORK = "fork"


class Rule(NamedTuple):
    apply: Callable[..., bool]
    kind: Kind
    shape: Shape = Shape.FORK


Rules = Mapping[str, Rule]

_FAIR = (
    drop,
    creation_begins,
    creation_ends,
    creation_fails,
    reply_arrives,
    creation_times_out,
    arrives,
    request_arrives,
    ack_arrives,
    accept_arrives,
    delete_arrives,
    fetch_arrives,
    fetch_times_out,
    repeat_request,
    repeat_accept,
    repeat_delete,
)
#: the protocol, by name
RULES: Rules = {
    "create": Rule(create, Kind.CHOICE, Shape.CREATION),
    "make": Rule(make, Kind.CHOICE, Shape.MAKING),
    "share_user": Rule(share_user, Kind.CHOICE, Shape.SHARING),
    "share_owner": Rule(share_owner, Kind.CHOICE, Shape.OWNER_SHARING),
    "let_go": Rule(let_go, Kind.CHOICE, Shape.REFERENCE),
    "fetch": Rule(fetch, Kind.CHOICE),
    **{each.__name__: Rule(each, Kind.FAIR) for each in _FAIR},
    **{each.__name__: Rule(each, Kind.FAULT) for each in FAULTS},
}
