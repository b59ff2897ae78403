"""What can go wrong with the messages of the RRef protocol, as rules like those of
:mod:`squall.properties.model.protocol.rules`: each step takes one of the faults that a world allows."""

from __future__ import annotations

from squall.properties.model.protocol.state import NOBODY, OWNER, Fork, Known, Reference, Stage


def lose_request(rref: Reference, fork: Fork) -> bool:
    """Also a creation, which is not sent again."""
    if not fork.requests:
        return False
    fork.requests -= 1
    return True


def lose_ack(rref: Reference, fork: Fork) -> bool:
    if not fork.acks:
        return False
    fork.acks -= 1
    return True


def lose_accept(rref: Reference, fork: Fork) -> bool:
    if not fork.accepts:
        return False
    fork.accepts -= 1
    return True


def lose_delete(rref: Reference, fork: Fork) -> bool:
    if not fork.deletes:
        return False
    fork.deletes -= 1
    return True


def lose_carrier(rref: Reference, fork: Fork) -> bool:
    """Whoever announced the fork cannot tell this from a slow message: it stays announced."""
    if fork.stage is not Stage.SENT:
        return False
    fork.stage = Stage.LOST
    return True


def double_request(rref: Reference, fork: Fork) -> bool:
    """The network doubles it, or its sender repeats it while it, or its answer, is only slow."""
    if fork.parent == NOBODY or not fork.requests + fork.acks:
        return False
    fork.requests += 1
    return True


def double_accept(rref: Reference, fork: Fork) -> bool:
    if not fork.accepts:
        return False
    fork.accepts += 1
    return True


def double_delete(rref: Reference, fork: Fork) -> bool:
    if not fork.deletes:
        return False
    fork.deletes += 1
    return True


def creation_is_late(rref: Reference, fork: Fork) -> bool:
    """The creator gives it up while it, or its answer, is under way."""
    waits = fork.parent == NOBODY and fork.stage is Stage.PENDING
    if not waits or not (fork.requests or fork.acks or rref.making):
        return False
    fork.failed = True
    fork.confirm()
    return True


def creation_never_leaves(rref: Reference, fork: Fork) -> bool:
    """The call that is to create it cannot be sent: whoever makes it gets an error, and no user, so
    that nobody can have used that."""
    waits = fork.parent == NOBODY and fork.stage is Stage.PENDING
    used = fork.fetching or rref.asked or len(rref.forks) > 1
    if not waits or not fork.requests or used:
        return False
    fork.stage = Stage.BACK
    fork.requests -= 1
    return True


def request_is_late(rref: Reference, fork: Fork) -> bool:
    """No attempt to introduce the user is answered in time: it is of no use, and goes in the end. The
    parent, which could not do better, is told that it need not be kept."""
    if fork.parent == NOBODY or fork.stage is not Stage.PENDING:
        return False
    fork.failed = True
    fork.confirm()
    fork.accepts += 1
    return True


def take_back(rref: Reference, fork: Fork) -> bool:
    """The message that was to carry the fork never leaves, and its parent is told."""
    if fork.stage is not Stage.SENT:
        return False
    fork.stage = Stage.BACK
    if fork.parent == OWNER:
        fork.known = Known.GONE
        rref.free_if_last()
    fork.kept = False
    return True


FAULTS = (
    lose_request,
    lose_ack,
    lose_accept,
    lose_delete,
    lose_carrier,
    double_request,
    double_accept,
    double_delete,
    creation_is_late,
    creation_never_leaves,
    request_is_late,
    take_back,
)
