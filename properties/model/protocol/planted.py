"""Errors in the rules of the RRef protocol: a rule left out, a wrong guard, a wrong order."""

from __future__ import annotations

from collections.abc import Callable

from squall.properties.model.protocol import faults, rules
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

#: by what is wrong, the rules
PLANTED: dict[str, Rules] = {}

Apply = Callable[..., bool]


def instead(**wrong: Apply) -> Rules:
    """The protocol with other rules in the place of some."""
    return {name: rule._replace(apply=wrong.get(name, rule.apply)) for name, rule in RULES.items()}


def planted(rule: str) -> Callable[[Apply], Apply]:
    """The docstring says what is wrong."""

    def add(wrong: Apply) -> Apply:
        assert wrong.__doc__ is not None
        PLANTED[wrong.__doc__] = instead(**{rule: wrong})
        return wrong

    return add


def never(rref: Reference, fork: Fork) -> bool:
    return False


for _name in (
    "repeat_request",
    "repeat_accept",
    "repeat_delete",
    "delete_arrives",
    "creation_times_out",
    "fetch_times_out",
):
    PLANTED[f"{_name} is left out"] = instead(**{_name: never})


# -- wrong guards -------------------------------------------------------------------------------


def _drops(rref: Reference, fork: Fork, may: bool) -> bool:
    if may:
        fork.stage = Stage.DELETED
        fork.acks = 0
        fork.deletes += 1
    return may


def _is_parent(rref: Reference, fork: Fork) -> bool:
    number = rref.forks.index(fork)
    return any(child.kept and child.parent == number for child in rref.forks)


@planted("drop")
def drop_pending(rref: Reference, fork: Fork) -> bool:
    """a user goes before its owner has confirmed it"""
    return _drops(rref, fork, fork.in_use and not fork.fetching and not _is_parent(rref, fork))


@planted("drop")
def drop_parent(rref: Reference, fork: Fork) -> bool:
    """a user goes before its child is accepted"""
    return _drops(rref, fork, fork.stage is Stage.CONFIRMED and not fork.fetching)


@planted("drop")
def drop_fetching(rref: Reference, fork: Fork) -> bool:
    """a user goes while it fetches the value"""
    return _drops(rref, fork, fork.stage is Stage.CONFIRMED and not _is_parent(rref, fork))


@planted("drop")
def drop_again(rref: Reference, fork: Fork) -> bool:
    """a deletion is told twice"""
    there = fork.stage in (Stage.CONFIRMED, Stage.DELETED, Stage.OVER)
    return _drops(rref, fork, there and not fork.fetching and not _is_parent(rref, fork))


@planted("repeat_delete")
def repeat_unasked(rref: Reference, fork: Fork) -> bool:
    """a deletion is told again while it is under way"""
    if fork.stage is not Stage.DELETED:
        return False
    fork.deletes += 1
    return True


@planted("delete_arrives")
def delete_unremembered(rref: Reference, fork: Fork) -> bool:
    """a deletion that overtakes what introduces its fork is forgotten"""
    known = fork.known
    if not rules.delete_arrives(rref, fork):
        return False
    if known is Known.UNKNOWN:
        fork.known = known
    return True


@planted("request_arrives")
def request_revives(rref: Reference, fork: Fork) -> bool:
    """a late copy of an introduction brings a deleted fork back"""
    if not rules.request_arrives(rref, fork):
        return False
    fork.known = Known.KNOWN
    return True


@planted("creation_ends")
def creation_revives(rref: Reference, fork: Fork) -> bool:
    """a late creation registers the fork of a creator that is gone"""
    known = fork.known
    if not rules.creation_ends(rref, fork):
        return False
    if known is Known.GONE:
        fork.known = Known.KNOWN
        rref.value = Value.PRESENT
    return True


@planted("delete_arrives")
def delete_frees(rref: Reference, fork: Fork) -> bool:
    """the value goes with any fork, not with the last"""
    if not rules.delete_arrives(rref, fork):
        return False
    if rref.value is Value.PRESENT:
        rref.value = Value.FREED
    return True


@planted("let_go")
def handle_frees(rref: Reference) -> bool:
    """the value goes with the program's own reference on the owner"""
    if not rules.let_go(rref):
        return False
    if rref.value is Value.PRESENT:
        rref.value = Value.FREED
    return True


# -- something left out -------------------------------------------------------------------------


@planted("delete_arrives")
def delete_keeps(rref: Reference, fork: Fork) -> bool:
    """the last fork leaves the value behind"""
    value = rref.value
    if not rules.delete_arrives(rref, fork):
        return False
    if rref.value is Value.FREED:
        rref.value = value
    return True


@planted("delete_arrives")
def abandoned(rref: Reference, fork: Fork) -> bool:
    """an owner is not told that its creation was given up"""
    if not fork.deletes:
        return False
    fork.deletes -= 1
    fork.stage = Stage.OVER
    fork.known = Known.GONE
    rref.free_if_last()
    return True


@planted("share_user")
def share_unkept(rref: Reference, parent: Fork, at: int) -> bool:
    """a parent is not kept for its child"""
    if not rules.share_user(rref, parent, at):
        return False
    rref.forks[-1].kept = False
    return True


@planted("share_owner")
def share_unregistered(rref: Reference, at: int) -> bool:
    """an owner shares a reference without registering the fork"""
    if not rules.share_owner(rref, at):
        return False
    rref.forks[-1].known = Known.UNKNOWN
    return True


@planted("creation_ends")
def creator_unregistered(rref: Reference, fork: Fork) -> bool:
    """a creation does not register its creator's fork"""
    known = fork.known
    if not rules.creation_ends(rref, fork):
        return False
    fork.known = known
    return True


@planted("creation_ends")
def creation_for_nobody(rref: Reference, fork: Fork) -> bool:
    """a creation keeps its value although everybody is gone"""
    if not rules.creation_ends(rref, fork):
        return False
    if rref.value is Value.FREED:
        rref.value = Value.PRESENT
    return True


@planted("request_arrives")
def request_unregistered(rref: Reference, fork: Fork) -> bool:
    """an introduction is answered and not registered"""
    known = fork.known
    if not rules.request_arrives(rref, fork):
        return False
    fork.known = known
    return True


@planted("arrives")
def home_unregistered(rref: Reference, fork: Fork) -> bool:
    """a fork that came back to its owner stays registered"""
    known = fork.known
    if not rules.arrives(rref, fork):
        return False
    if fork.stage is Stage.HOME:
        fork.known = known
        if rref.value is Value.FREED:
            rref.value = Value.PRESENT
    return True


@planted("take_back")
def kept_for_nothing(rref: Reference, fork: Fork) -> bool:
    """a parent is kept for a child whose message never left"""
    kept = fork.kept
    if not faults.take_back(rref, fork):
        return False
    fork.kept = kept
    return True


@planted("creation_fails")
def failure_untold(rref: Reference, fork: Fork) -> bool:
    """nobody who asked for a value is told that its creation failed"""
    value, asked = rref.value, rref.asked
    if not rules.creation_fails(rref, fork):
        return False
    rref.value, rref.asked = value, asked
    return True


# -- a wrong order ------------------------------------------------------------------------------


@planted("arrives")
def accepted_at_once(rref: Reference, fork: Fork) -> bool:
    """a child is accepted when it arrives, not when its owner knows it"""
    if not rules.arrives(rref, fork):
        return False
    if fork.stage is Stage.PENDING:
        fork.accepts += 1
    return True


@planted("arrives")
def confirmed_at_once(rref: Reference, fork: Fork) -> bool:
    """a user is confirmed when it arrives, not when its owner has answered"""
    if not rules.arrives(rref, fork):
        return False
    if fork.stage is Stage.PENDING:
        fork.confirm()
    return True


@planted("creation_begins")
def answered_first(rref: Reference, fork: Fork) -> bool:
    """a creation is answered before it has ended"""
    if not rules.creation_begins(rref, fork):
        return False
    if fork.stage is Stage.PENDING:
        fork.acks += 1
    return True


@planted("request_is_late")
def gives_up_silently(rref: Reference, fork: Fork) -> bool:
    """a user that cannot be introduced goes without a trace, and its parent is not told"""
    if not faults.request_is_late(rref, fork):
        return False
    fork.stage = Stage.BACK
    fork.accepts = 0
    return True


# -- what allows too little: some break an invariant, since something is never done; of others only
# runs tell ------------------------------------------------------------------------------------

#: by what is wrong: these rules break no invariant
TOO_STRICT: dict[str, Rules] = {
    f"{name} is left out": instead(**{name: never})
    for name in (
        "creation_fails",
        "creation_is_late",
        "creation_never_leaves",
        "request_is_late",
        "take_back",
    )
}


def too_strict(rule: str) -> Callable[[Apply], Apply]:
    def add(wrong: Apply) -> Apply:
        assert wrong.__doc__ is not None
        TOO_STRICT[wrong.__doc__] = instead(**{rule: wrong})
        return wrong

    return add


@too_strict("share_user")
def share_confirmed(rref: Reference, parent: Fork, at: int) -> bool:
    """only a confirmed user can be shared"""
    return parent.stage is Stage.CONFIRMED and rules.share_user(rref, parent, at)


@too_strict("share_user")
def share_one_by_one(rref: Reference, parent: Fork, at: int) -> bool:
    """a user has one pending child at a time"""
    return not _is_parent(rref, parent) and rules.share_user(rref, parent, at)


@too_strict("arrives")
def asks_all(rref: Reference, fork: Fork) -> bool:
    """a user waits for its owner's answer also if it comes from the owner itself"""
    if not rules.arrives(rref, fork):
        return False
    if fork.parent == OWNER and fork.stage is Stage.CONFIRMED:
        fork.stage = Stage.PENDING
        fork.requests += 1
    return True


@planted("arrives")
def not_home(rref: Reference, fork: Fork) -> bool:
    """no fork comes home"""
    return fork.at != rref.owner and rules.arrives(rref, fork)


@too_strict("drop")
def creator_last(rref: Reference, fork: Fork) -> bool:
    """the creator's fork is deleted last"""
    others = any(other.in_use for other in rref.forks if other is not fork)
    return not (fork.parent == NOBODY and others) and rules.drop(rref, fork)


@planted("delete_arrives")
def held_by_handle(rref: Reference, fork: Fork) -> bool:
    """a value is kept while the program on its owner holds it"""
    if not rules.delete_arrives(rref, fork):
        return False
    if rref.value is Value.FREED and rref.handle:
        rref.value = Value.PRESENT
    return True


@planted("request_arrives")
def after_creation(rref: Reference, fork: Fork) -> bool:
    """no user is introduced before the value is there"""
    return rref.value is not Value.ABSENT and rules.request_arrives(rref, fork)
