"""The same states as integers, and the same steps for a whole frontier of them at once.

Python takes some 100 µs for a state and its steps (:mod:`squall.properties.model.protocol.explore`); a hundred
thousand states a second need ten. So a state is one number of 64 bits, of digits of different bases, one for each field
of :mod:`squall.properties.model.protocol.state`. A frontier is an array of such numbers. Its digits are taken
apart once, into arrays of bytes; the guard of a rule is a few operations on these, of a tenth of a
nanosecond for a state each, and a step adds to the numbers what it changes of their digits. Sorting
finds those that are there already, and no number stands for two states. numpy is there anyway; a
compiled extension would have to be built wherever squall is installed.

Every rule stands here a second time. That both ways come to the same steps is tested for all states of
small worlds (properties/model/protocol/test_arrays.py); whoever changes one has to change both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from squall.properties.model.protocol.faults import FAULTS
from squall.properties.model.protocol.layout import Digits, Frontier, Mask, Name, Words
from squall.properties.model.protocol.state import NOBODY, OWNER, Known, Stage, Value


class OneFork:
    """A fork of a frontier's states: its fields by name, and what a step changes."""

    def __init__(self, frontier: Frontier, rref: int, fork: int) -> None:
        self.frontier = frontier
        self.rref = rref
        self.fork = fork
        parent = frontier.layout.parent
        self.of_owner = self["parent"] == parent(fork, OWNER)
        self.of_creator = self["parent"] == parent(fork, NOBODY)
        self.pending: Mask = self["stage"] == Stage.PENDING
        self.confirmed: Mask = self["stage"] == Stage.CONFIRMED

    def __getitem__(self, field: str) -> Digits:
        return self.frontier.get(field, self.rref, self.fork)

    def of(self, field: str) -> Digits:
        """A field of its reference."""
        return self.frontier.get(field, self.rref)

    @property
    def in_use(self) -> Mask:
        return self.pending | self.confirmed

    @property
    def waits(self) -> Mask:
        """No message is under way that would end its being pending."""
        nothing: Mask = (self["requests"] == 0) & (self["acks"] == 0)
        return self.pending & nothing

    def more(self, field: str, by: Mask | int = 1) -> Digits:
        """A count, and one more where ``by`` says so."""
        return (self[field] + by).astype(np.uint8)

    def less(self, field: str) -> Digits:
        return self[field] - np.uint8(1)

    @property
    def is_parent(self) -> Mask:
        """It is kept for a child."""
        frontier = self.frontier
        kept = np.zeros(len(frontier.words), np.bool_)
        for child in range(self.fork + 1, frontier.layout.world.forks):
            is_child = frontier.get("parent", self.rref, child) == self.fork
            kept |= is_child & (frontier.get("kept", self.rref, child) == 1)
        return kept

    @property
    def others_known(self) -> Mask:
        """The owner knows another fork."""
        frontier = self.frontier
        known = np.zeros(len(frontier.words), np.bool_)
        for other in range(frontier.layout.world.forks):
            if other != self.fork:
                known |= frontier.get("known", self.rref, other) == Known.KNOWN
        return known

    @property
    def value_without(self) -> Digits:
        """What becomes of the value if the owner does not know the fork any more."""
        freed = (self.of("value") == Value.PRESENT) & ~self.others_known
        return np.where(freed, np.uint8(Value.FREED), self.of("value"))


Changes = dict[str, Any]
#: the name of a rule, where it can be taken, and what it changes: fields of the fork, or of the
#: reference where the name begins with "its "
Emitted = tuple[str, Mask, Changes]


def steps_of_fork(each: OneFork, faults: bool) -> Iterator[Emitted]:
    """All rules about one fork, as in :mod:`squall.properties.model.protocol.rules`."""
    stage, known, value = each["stage"], each["known"], each.of("value")
    requests, acks = each["requests"], each["acks"]
    creator, sent = each.of_creator, stage == Stage.SENT
    confirm: Changes = {"stage": Stage.CONFIRMED, "acks": 0}
    now_known = np.where(known == Known.UNKNOWN, np.uint8(Known.KNOWN), known)
    ungiven = (value == Value.ABSENT) | (value == Value.TOLD)

    def given_up(where: Mask) -> Changes:
        gives = where & ungiven
        return {
            "its value": np.where(gives, np.uint8(Value.FAILED), value),
            "its asked": np.where(gives, np.uint8(0), each.of("asked")),
        }

    yield "fetch", each.in_use & (each["fetching"] == 0), {"fetching": 1}
    held = (each["fetching"] == 1) | each.is_parent
    gone = {"stage": Stage.DELETED, "deletes": each.more("deletes")}
    yield "drop", each.confirmed & ~held, gone

    # messages that arrive
    answered: Changes = {"acks": each.more("acks", each.pending)}
    making = creator & (each.of("making") == 1)
    begun = {"requests": each.less("requests"), "its making": 1}
    yield "creation_begins", creator & (requests > 0), begun
    made: Changes = {**answered, "its making": 0}
    refused = value == Value.FAILED
    yield "creation_ends", making & refused, made
    lives = (now_known == Known.KNOWN) | each.others_known
    present = np.where(lives, np.uint8(Value.PRESENT), np.uint8(Value.FREED))
    created = {**made, "known": now_known, "its value": present, "its asked": 0}
    yield "creation_ends", making & ~refused, created
    yield "creation_fails", making, {**made, "failed": 1, **given_up(making)}
    yield "reply_arrives", creator & (acks > 0), confirm
    yield (
        "creation_times_out",
        creator & each.waits & (each.of("making") == 0),
        {**confirm, "failed": 1},
    )
    home = sent & (each["at"] == each.of("owner"))
    yield (
        "arrives",
        home & each.of_owner,
        {
            "stage": Stage.HOME,
            "its handle": 1,
            "known": Known.GONE,
            "its value": each.value_without,
        },
    )
    absent = value == Value.ABSENT
    told = {
        "its value": np.where(absent, np.uint8(Value.TOLD), value),
        "its asked": np.where(absent, np.uint8(0), each.of("asked")),
    }
    arrived = {"stage": Stage.HOME, "its handle": 1, "accepts": each.more("accepts"), **told}
    yield "arrives", home & ~each.of_owner, arrived
    away = sent & (each["at"] != each.of("owner"))
    yield "arrives", away & each.of_owner, {"stage": Stage.CONFIRMED}
    asking = {"stage": Stage.PENDING, "requests": each.more("requests")}
    yield "arrives", away & ~each.of_owner, asking
    heard: Changes = {**answered, "requests": each.less("requests"), "known": now_known}
    yield "request_arrives", ~creator & (requests > 0), heard
    accepting = {**confirm, "accepts": each.more("accepts")}
    yield "ack_arrives", ~creator & (acks > 0), accepting
    yield "accept_arrives", each["accepts"] > 0, {"accepts": each.less("accepts"), "kept": 0}
    freed = each.value_without
    abandoned = creator & (each["failed"] == 1) & (each.of("making") == 0)
    forgotten: Changes = {
        "deletes": each.less("deletes"),
        "stage": Stage.OVER,
        "known": Known.GONE,
    }
    yield "delete_arrives", (each["deletes"] > 0) & ~abandoned, {**forgotten, "its value": freed}
    given = np.where(ungiven, np.uint8(Value.FAILED), freed)
    unasked = np.where(ungiven, np.uint8(0), each.of("asked"))
    given_back = {**forgotten, "its value": given, "its asked": unasked}
    yield "delete_arrives", (each["deletes"] > 0) & abandoned, given_back
    fetching = each["fetching"] == 1
    yield "fetch_arrives", fetching & absent & (each.of("asked") == 0), {"its asked": 1}
    decided = ~absent & (value != Value.TOLD)
    yield "fetch_arrives", fetching & decided, {"fetching": 0}
    yield "fetch_times_out", fetching & ungiven, {"fetching": 0}

    # what is sent again
    yield "repeat_request", ~creator & each.waits, {"requests": each.more("requests")}
    settled = each.confirmed | np.isin(stage, (Stage.DELETED, Stage.OVER, Stage.HOME))
    unheard = settled & (each["kept"] == 1) & (each["accepts"] == 0)
    yield "repeat_accept", unheard, {"accepts": each.more("accepts")}
    untold = (stage == Stage.DELETED) & (each["deletes"] == 0)
    yield "repeat_delete", untold, {"deletes": each.more("deletes")}

    if faults:
        for rule, emitted, changes in _faults_of_fork(each, confirm, accepting):
            yield rule, emitted & (each.frontier.get("faults") > 0), changes


def _faults_of_fork(each: OneFork, confirm: Changes, accepting: Changes) -> Iterator[Emitted]:
    creator, sent = each.of_creator, each["stage"] == Stage.SENT
    under_way = (each["requests"] > 0) | (each["acks"] > 0)
    for what in ("request", "ack", "accept", "delete"):
        copies = what + "s"
        yield f"lose_{what}", each[copies] > 0, {copies: each.less(copies)}
    yield "lose_carrier", sent, {"stage": Stage.LOST}
    yield "double_request", ~creator & under_way, {"requests": each.more("requests")}
    yield "double_accept", each["accepts"] > 0, {"accepts": each.more("accepts")}
    yield "double_delete", each["deletes"] > 0, {"deletes": each.more("deletes")}
    late = {**confirm, "failed": 1}
    early = creator & each.pending
    yield "creation_is_late", early & (under_way | (each.of("making") == 1)), late
    unused = (each["fetching"] == 0) & (each.of("asked") == 0)
    alone = early & (each["requests"] > 0) & unused
    for other in range(1, each.frontier.layout.world.forks):
        alone = alone & (each.frontier.get("stage", each.rref, other) == Stage.UNUSED)
    never = {"stage": Stage.BACK, "requests": each.less("requests")}
    yield "creation_never_leaves", alone, never
    yield "request_is_late", ~creator & each.pending, {**accepting, "failed": 1}
    back: Changes = {"stage": Stage.BACK, "kept": 0}
    yield "take_back", sent & ~each.of_owner, back
    own = {**back, "known": Known.GONE, "its value": each.value_without}
    yield "take_back", sent & each.of_owner, own


def successors(frontier: Frontier) -> Iterator[tuple[str, Mask, Words]]:
    """By rule: where it can be taken, and what it leads to, which is not folded."""
    world = frontier.layout.world
    for rref in range(world.references):
        for fork in range(world.forks):
            if not (frontier.get("stage", rref, fork) != Stage.UNUSED).any():
                continue
            each = OneFork(frontier, rref, fork)
            for rule, mask, changes in steps_of_fork(each, bool(world.faults)):
                if rule == "fetch":
                    mask = mask & (frontier.get("fetches") > 0)
                if not mask.any():
                    continue
                named = {_name(field, rref, fork): value for field, value in changes.items()}
                if rule in _FAULTS:
                    named["faults", -1, -1] = frontier.get("faults") - np.uint8(1)
                if rule == "fetch":
                    named["fetches", -1, -1] = frontier.get("fetches") - np.uint8(1)
                yield rule, mask, frontier.changed(mask, named)
        yield from _steps_of_reference(frontier, rref)


def _name(field: str, rref: int, fork: int) -> Name:
    return (field[4:], rref, -1) if field.startswith("its ") else (field, rref, fork)


#: the rules that name a worker: what they lead to has to be folded, also where there is one reference
NAMING = frozenset({"create", "make", "share_user", "share_owner"})
_FAULTS = frozenset(each.__name__ for each in FAULTS)


def _steps_of_reference(frontier: Frontier, rref: int) -> Iterator[tuple[str, Mask, Words]]:
    """Making it, sharing it, and letting the owner's object go."""
    layout, world = frontier.layout, frontier.layout.world
    unmade = frontier.get("owner", rref) == layout.unmade
    held = frontier.get("handle", rref) == 1

    def emit(
        rule: str, mask: Mask, changes: dict[Name, int | Digits]
    ) -> Iterator[tuple[str, Mask, Words]]:
        if mask.any():
            yield rule, mask, frontier.changed(mask, changes)

    yield from emit("let_go", held, {("handle", rref, -1): 0})
    for owner in range(world.workers):
        its: dict[Name, int | Digits] = {("owner", rref, -1): owner}
        yield from emit("make", unmade, {**its, ("handle", rref, -1): 1})
        for creator in range(world.workers):
            if creator == owner:
                continue
            first: dict[Name, int | Digits] = {
                **its,
                ("at", rref, 0): creator,
                ("parent", rref, 0): layout.parent(0, NOBODY),
                ("stage", rref, 0): Stage.PENDING,
                ("requests", rref, 0): 1,
            }
            yield from emit("create", unmade, first)
    listed = np.isin(frontier.get("value", rref), (Value.TOLD, Value.PRESENT))
    for fork in range(world.forks):
        free = frontier.get("stage", rref, fork) == Stage.UNUSED
        if fork:
            free &= frontier.get("stage", rref, fork - 1) != Stage.UNUSED
        if not free.any():
            continue
        for at in range(world.workers):
            new: dict[Name, int | Digits] = {
                ("at", rref, fork): at,
                ("stage", rref, fork): Stage.SENT,
            }
            own: dict[Name, int | Digits] = {
                **new,
                ("parent", rref, fork): layout.parent(fork, OWNER),
                ("known", rref, fork): Known.KNOWN,
            }
            value = np.where(listed, frontier.get("value", rref), np.uint8(Value.PRESENT))
            yield from emit("share_owner", free & held, {**own, ("value", rref, -1): value})
            for parent in range(fork):
                stage = frontier.get("stage", rref, parent)
                can = (stage == Stage.PENDING) | (stage == Stage.CONFIRMED)
                its_own: dict[Name, int | Digits] = {
                    **new,
                    ("parent", rref, fork): parent,
                    ("kept", rref, fork): 1,
                }
                yield from emit("share_user", free & can, its_own)
