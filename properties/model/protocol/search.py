"""Breadth first through all states of a world, a frontier at a time, with every invariant looked at in
every state."""

from __future__ import annotations

import numpy as np

from squall.properties.model.protocol.arrays import NAMING, OneFork, successors
from squall.properties.model.protocol.explore import NOTHING_ENDS, Exploration, retrace
from squall.properties.model.protocol.explore import folded as one_folded
from squall.properties.model.protocol.layout import Digits, Frontier, Layout, Mask, Words, folded
from squall.properties.model.protocol.rules import RULES, Kind
from squall.properties.model.protocol.state import NOBODY, Known, Stage, Value, World, initial

#: states that are looked at together: their digits stay in the processor's caches
CHUNK = 1 << 15


def search(world: World, *, limit: int | None = None) -> Exploration:
    """All states of a world, or as many as ``limit`` allows, up to a whole level. Ends at the first level
    with a state that breaks an invariant, with the shortest way to one.

    Raises ValueError for a world whose states do not fit into 64 bits.
    """
    layout = Layout(world)
    found = Exploration(world)
    first = np.array([layout.number(one_folded(initial(world)))], np.uint64)
    levels = [first]
    seen = first
    while len(levels[-1]):
        level = levels[-1]
        found.levels.append(len(level))
        after: list[Words] = []
        for at in range(0, len(level), CHUNK):
            reached, broken = _look(Frontier(layout, level[at : at + CHUNK]), found)
            if broken is not None:
                found.breach, index = broken
                levels[-1] = level[at + index : at + index + 1]
                found.path = retrace(world, _way(layout, levels))
                return found
            after.append(reached)
        new = np.unique(np.concatenate(after))
        new = new[~_among(new, seen)]
        seen = _merged(seen, new)
        levels.append(new)
        if limit is not None and found.states + len(new) > limit:
            found.exhausted = not len(new)
            break
    return found


def _look(frontier: Frontier, found: Exploration) -> tuple[Words, tuple[str, int] | None]:
    """Where the steps of these states lead, each once; and the first thing that is broken in one of
    them, with its place."""
    layout = frontier.layout
    for what, mask in broken_in(frontier):
        if mask.any():
            return frontier.words, (what, int(np.flatnonzero(mask)[0]))
    weight = measured(frontier)
    must_go_on = np.zeros(len(frontier.words), np.bool_)
    named: list[Words] = []
    unnamed: list[Words] = []
    for rule, mask, words in successors(frontier):
        found.steps += len(words)
        if RULES[rule].kind is Kind.FAIR:
            must_go_on |= mask
        no_nearer = measured(Frontier(layout, words)) >= weight[mask]
        if no_nearer.any():
            at = int(np.flatnonzero(mask)[np.flatnonzero(no_nearer)[0]])
            return frontier.words, (f"{NOTHING_ENDS}: {rule}", at)
        (named if rule in NAMING or layout.world.references > 1 else unnamed).append(words)
    for what, mask in left_in(frontier):
        at_rest = mask & ~must_go_on
        if at_rest.any():
            return frontier.words, (what, int(np.flatnonzero(at_rest)[0]))
    if named:
        unnamed.append(folded(layout, np.unique(np.concatenate(named))))
    return np.unique(np.concatenate(unnamed)) if unnamed else frontier.words[:0], None


def _among(words: Words, seen: Words) -> Mask:
    """Which of these are among those; both sorted."""
    at = np.searchsorted(seen, words)
    at[at == len(seen)] = 0
    there: Mask = seen[at] == words
    return there


def _merged(seen: Words, new: Words) -> Words:
    both = np.concatenate([seen, new])
    both.sort(kind="stable")  # two sorted runs, which it finds
    return both


def _way(layout: Layout, levels: list[Words]) -> list[tuple[object, ...]]:
    """The keys of states on a way to the one state of the last level: of each level one that leads to
    the next."""
    target = levels[-1][0]
    way = [target]
    for level in reversed(levels[:-1]):
        frontier = Frontier(layout, level)
        for _, mask, words in successors(frontier):
            hits = np.flatnonzero(folded(layout, words) == target)
            if len(hits):
                target = level[np.flatnonzero(mask)[hits[0]]]
                break
        way.append(target)
    return [one_folded(layout.state(int(each))).key() for each in reversed(way[:-1])]


# -- invariants, as in squall.properties.model.protocol.invariants ---------------------------------------------


def broken_in(frontier: Frontier) -> list[tuple[str, Mask]]:
    """Each invariant in words, and where it is broken."""
    found: list[tuple[str, Mask]] = []
    world = frontier.layout.world
    copies = 1 + world.faults - frontier.get("faults")
    for rref in range(world.references):
        freed = frontier.get("value", rref) == Value.FREED
        forks = [OneFork(frontier, rref, fork) for fork in range(world.forks)]
        unsound: list[Mask] = []
        any_known = np.zeros(len(freed), np.bool_)
        for number, fork in enumerate(forks):
            bad, parent_is_there = fork["failed"] == 1, np.zeros(len(freed), np.bool_)
            for parent in range(number):
                of_parent = fork["parent"] == parent
                bad = bad | (of_parent & unsound[parent])
                parent_is_there |= of_parent & forks[parent].in_use
            unsound.append(bad)
            known, failed = fork["known"], fork["failed"] == 1
            any_known |= known == Known.KNOWN
            found += [
                ("a value is fetched that was freed", freed & ~bad & (fork["fetching"] == 1)),
                (
                    "a value is freed while a fork of it is in use or on its way",
                    freed & ~bad & (fork.in_use | (fork["stage"] == Stage.SENT)),
                ),
                (
                    "a confirmed user is not known to its owner",
                    fork.confirmed & ~failed & (known != Known.KNOWN),
                ),
                (
                    "a fork is deleted while its user is in use",
                    (known == Known.GONE) & fork.in_use & ~failed,
                ),
                (
                    "a parent is gone before its child is accepted",
                    (fork["kept"] == 1) & ~parent_is_there,
                ),
            ]
            for message in ("requests", "acks", "accepts", "deletes"):
                found.append(("a message is sent twice without a reason", fork[message] > copies))
        present = frontier.get("value", rref) == Value.PRESENT
        found.append(("a value is kept that nobody refers to", present & ~any_known))
    return found


def left_in(frontier: Frontier) -> list[tuple[str, Mask]]:
    """What may not be left where nothing has to happen, in words, and where it is there."""
    found: list[tuple[str, Mask]] = []
    world = frontier.layout.world
    for rref in range(world.references):
        stages = [frontier.get("stage", rref, fork) for fork in range(world.forks)]
        lost = [stage == Stage.LOST for stage in stages]
        for fork in range(world.forks):
            may = lost[fork]
            for child in range(fork + 1, world.forks):
                may = may | (lost[child] & (frontier.get("parent", rref, child) == fork))
            there = np.isin(stages[fork], (Stage.PENDING, Stage.CONFIRMED, Stage.SENT))
            known = frontier.get("known", rref, fork) == Known.KNOWN
            found.append(("a user is left", there & ~may))
            found.append(("a fork is left in its owner's set", known & ~may))
            kept = frontier.get("kept", rref, fork) == 1
            found.append(("a parent is left, kept for its child", kept & ~may))
        any_lost = np.logical_or.reduce(lost)
        listed = np.isin(frontier.get("value", rref), (Value.TOLD, Value.PRESENT))
        asked = frontier.get("asked", rref) == 1
        found.append(("a creation is left", frontier.get("making", rref) == 1))
        found.append(("a value is left", listed & ~any_lost))
        found.append(("a fetch is left that waits for a creation", asked & ~any_lost))
    return found


def measured(frontier: Frontier) -> Digits:
    """:func:`squall.properties.model.protocol.invariants.measure` of all states."""
    world = frontier.layout.world
    total = frontier.get("faults").astype(np.uint16) * np.uint16(100)
    total += frontier.get("fetches") * np.uint16(10)
    for rref in range(world.references):
        unmade = frontier.get("owner", rref) == frontier.layout.unmade
        total += np.uint16(5) * unmade + frontier.get("handle", rref)
        asked = frontier.get("asked", rref) == 1
        total += (frontier.get("value", rref) == Value.ABSENT) & ~asked
        total += np.uint16(2) * frontier.get("making", rref)
        for number in range(world.forks):
            stage = frontier.get("stage", rref, number)
            total += _WEIGHTS[stage]
            total += np.uint16(5) * frontier.get("fetching", rref, number)
            requests, acks, accepts, deletes = (
                frontier.get(name, rref, number)
                for name in ("requests", "acks", "accepts", "deletes")
            )
            total += np.uint16(4) * requests + acks + 2 * accepts + 2 * deletes
            parent = frontier.get("parent", rref, number)
            asks = (stage == Stage.PENDING) & (parent != frontier.layout.parent(number, NOBODY))
            nothing = asks & (requests == 0) & (acks == 0)
            kept = (frontier.get("kept", rref, number) == 1) & (accepts == 0)
            told = (stage >= Stage.CONFIRMED) & (stage <= Stage.HOME)
            untold = (stage == Stage.DELETED) & (deletes == 0)
            total += np.uint16(6) * nothing + np.uint16(3) * (kept & told)
            total += np.uint16(3) * untold
    return total


_WEIGHTS = np.zeros(len(Stage), np.uint16)
_WEIGHTS[[Stage.UNUSED, Stage.SENT, Stage.PENDING, Stage.CONFIRMED]] = (60, 40, 25, 12)
_WEIGHTS[[Stage.DELETED, Stage.OVER, Stage.HOME, Stage.LOST, Stage.BACK]] = (3, 2, 2, 1, 1)
