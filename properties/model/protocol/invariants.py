"""What holds in every state of the protocol, and what is left when nothing has to happen any more."""

from __future__ import annotations

from collections.abc import Iterator

from squall.properties.model.protocol.state import (
    NOBODY,
    UNMADE,
    Fork,
    Known,
    Reference,
    Stage,
    State,
    Value,
    World,
)


def is_sound(rref: Reference, fork: Fork) -> bool:
    """Whether the protocol promises a fork that the value lives: neither its own introduction to the
    owner nor that of a user it descends from has failed. Each use of those that failed raises."""
    while not fork.failed:
        if fork.parent < 0:
            return True
        fork = rref.forks[fork.parent]
    return False


def breaches(world: World, state: State) -> Iterator[str]:
    """The invariants that a state breaks, in words."""
    for rref in state.references:
        yield from _of(rref, 1 + world.faults - state.faults)


def _of(rref: Reference, copies: int) -> Iterator[str]:
    """``copies``: that there may be of a message, by the faults that there were."""
    for fork in rref.forks:
        sound = is_sound(rref, fork)
        if rref.value is Value.FREED and sound:
            if fork.fetching:
                yield "a value is fetched that was freed"
            if fork.in_use or fork.stage is Stage.SENT:
                yield "a value is freed while a fork of it is in use or on its way"
        if fork.stage is Stage.CONFIRMED and not fork.failed and fork.known is not Known.KNOWN:
            yield "a confirmed user is not known to its owner"
        if fork.known is Known.GONE and fork.in_use and not fork.failed:
            yield "a fork is deleted while its user is in use"
        if fork.kept and not (fork.parent >= 0 and rref.forks[fork.parent].in_use):
            yield "a parent is gone before its child is accepted"
        if max(fork.requests, fork.acks, fork.accepts, fork.deletes) > copies:
            yield "a message is sent twice without a reason"
    if rref.value is Value.PRESENT and not any(f.known is Known.KNOWN for f in rref.forks):
        yield "a value is kept that nobody refers to"


def left(state: State) -> Iterator[str]:
    """What is left of a state in which nothing has to happen, in words. A fork whose carrier was lost
    may leave what it holds: itself at the owner, its parent, and what these keep from being freed or
    given up."""
    for rref in state.references:
        lost = [fork for fork in rref.forks if fork.stage is Stage.LOST]
        holding = {fork.parent for fork in lost}
        for number, fork in enumerate(rref.forks):
            if fork.stage is Stage.LOST or number in holding:
                continue
            if fork.in_use or fork.stage is Stage.SENT:
                yield "a user is left"
            if fork.known is Known.KNOWN:
                yield "a fork is left in its owner's set"
            if fork.kept:
                yield "a parent is left, kept for its child"
        if not lost and rref.listed:
            yield "a value is left"
        if rref.making:
            yield "a creation is left"
        if not lost and rref.asked:
            yield "a fetch is left that waits for a creation"


def measure(world: World, state: State) -> int:
    """A number that each step lowers, so that every run of the protocol comes to an end.

    A stage weighs more than all that the next one can bring, a message that has to be sent again more
    than one under way, and a fault more than what it can set back.
    """
    total = 100 * state.faults + 10 * state.fetches
    for rref in state.references:
        total += 60 * (world.forks - len(rref.forks)) + 5 * (rref.owner == UNMADE)
        total += rref.handle + (rref.value is Value.ABSENT and not rref.asked)
        total += 2 * rref.making
        for fork in rref.forks:
            total += _STAGES[fork.stage] + 5 * fork.fetching
            total += 4 * fork.requests + fork.acks + 2 * fork.accepts + 2 * fork.deletes
            asks = fork.stage is Stage.PENDING and fork.parent != NOBODY
            if asks and not fork.requests + fork.acks:
                total += 6
            told = fork.stage in (Stage.CONFIRMED, Stage.DELETED, Stage.OVER, Stage.HOME)
            if told and fork.kept and not fork.accepts:
                total += 3
            if fork.stage is Stage.DELETED and not fork.deletes:
                total += 3
    return total


_STAGES = {
    Stage.UNUSED: 0,
    Stage.SENT: 40,
    Stage.PENDING: 25,
    Stage.CONFIRMED: 12,
    Stage.DELETED: 3,
    Stage.OVER: 2,
    Stage.HOME: 2,
    Stage.LOST: 1,
    Stage.BACK: 1,
}
