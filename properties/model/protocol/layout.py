"""States of the RRef protocol as numbers of 64 bits, and whole frontiers of them as arrays."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import numpy.typing as npt

from squall.properties.model.protocol.state import (
    NOBODY,
    OWNER,
    UNMADE,
    Fork,
    Known,
    Reference,
    Stage,
    State,
    Value,
    World,
)

Words = npt.NDArray[np.uint64]
Digits = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_COPIES = ("requests", "acks", "accepts", "deletes")
_REFERENCE = ("owner", "value", "handle", "asked", "making")
_FORK = ("at", "parent", "stage", "known", "failed", "kept", *_COPIES, "fetching")

#: (field, reference, fork); -1 where there is none
Name = tuple[str, int, int]


def _base(world: World, field: str, fork: int) -> int:
    """How many values a field of a fork can have; 1 for one that never changes."""
    faults = world.faults > 0
    if field in ("kept", "accepts") and not fork:  # no user is the parent of the first
        return 1
    if field in _COPIES:
        return world.faults + 2
    return {
        "at": world.workers,
        "parent": fork + 2,
        "stage": len(Stage) if faults else Stage.LOST,  # the last two come of faults alone
        "known": len(Known),
        "failed": 2 if faults or not fork else 1,  # without a fault a creation can fail
        "kept": 2,
        "fetching": 2 if world.fetches else 1,
    }[field]


class Layout:
    """Which digit of a number is which field in a world."""

    def __init__(self, world: World) -> None:
        """Raises ValueError for a world whose states do not fit into 64 bits."""
        self.world = world
        #: the place value and the base of each field
        self.digits: dict[Name, tuple[int, int]] = {}
        #: what stands for a reference that nobody has made, and by fork for parents that are no user
        self.unmade = world.workers
        self._size = 1
        self._add("faults", -1, -1, world.faults + 1)
        self._add("fetches", -1, -1, world.fetches + 1)
        #: the place value of what there is of each reference, and the base of that
        self.places: list[int] = []
        self.block = 1
        for rref in range(world.references):
            self.places.append(self._size)
            self._add("owner", rref, -1, world.workers + 1)
            self._add("value", rref, -1, len(Value))
            self._add("handle", rref, -1, 2)
            self._add("asked", rref, -1, 2 if world.fetches else 1)
            self._add("making", rref, -1, 2)
            for fork in range(world.forks):
                for field in _FORK:
                    self._add(field, rref, fork, _base(world, field, fork))
            self.block = self._size // self.places[rref]
        if self._size > 2**64:
            bits = self._size.bit_length()
            raise ValueError(
                f"a state of {world} takes {bits} bits, expected at most 64: fewer forks, "
                "references or faults"
            )

    def _add(self, field: str, rref: int, fork: int, base: int) -> None:
        self.digits[field, rref, fork] = (self._size, base)
        self._size *= base

    @staticmethod
    def parent(fork: int, parent: int) -> int:
        """The digit for the parent of a fork: an earlier fork, the owner or nobody."""
        return {OWNER: fork, NOBODY: fork + 1}.get(parent, parent)

    def number(self, state: State) -> int:
        """The number of a state."""
        total = state.faults * self.digits["faults", -1, -1][0]
        total += state.fetches * self.digits["fetches", -1, -1][0]
        for r, rref in enumerate(state.references):
            for field in _REFERENCE:
                value = int(getattr(rref, field))
                if field == "owner" and value == UNMADE:
                    value = self.unmade
                total += value * self.digits[field, r, -1][0]
            for f, fork in enumerate(rref.forks):
                for field in _FORK:
                    value = int(getattr(fork, field))
                    if field == "parent":
                        value = self.parent(f, value)
                    total += value * self.digits[field, r, f][0]
        return total

    def state(self, number: int) -> State:
        """The state of a number."""

        def digit(field: str, rref: int = -1, fork: int = -1) -> int:
            place, base = self.digits[field, rref, fork]
            return number // place % base

        references = []
        for r in range(self.world.references):
            owner = digit("owner", r)
            rref = Reference(
                UNMADE if owner == self.unmade else owner,
                Value(digit("value", r)),
                bool(digit("handle", r)),
                bool(digit("asked", r)),
                bool(digit("making", r)),
            )
            for f in range(self.world.forks):
                stage = Stage(digit("stage", r, f))
                if stage is Stage.UNUSED:
                    break
                parent = digit("parent", r, f)
                fork = Fork(
                    digit("at", r, f),
                    {f: OWNER, f + 1: NOBODY}.get(parent, parent),
                    stage,
                    Known(digit("known", r, f)),
                    bool(digit("failed", r, f)),
                    bool(digit("kept", r, f)),
                    digit("requests", r, f),
                    digit("acks", r, f),
                    digit("accepts", r, f),
                    digit("deletes", r, f),
                    bool(digit("fetching", r, f)),
                )
                rref.forks.append(fork)
            references.append(rref)
        return State(references, digit("faults"), digit("fetches"))


class Frontier:
    """States, one number each, and their digits."""

    def __init__(self, layout: Layout, words: Words) -> None:
        self.layout = layout
        self.words = words
        self._digits: dict[Name, Digits] = {}

    def get(self, field: str, rref: int = -1, fork: int = -1) -> Digits:
        """A field of all states."""
        name = (field, rref, fork)
        known = self._digits.get(name)
        if known is None:
            place, base = self.layout.digits[name]
            known = (self.words // np.uint64(place) % np.uint64(base)).astype(np.uint8)
            self._digits[name] = known
        return known

    def changed(self, mask: Mask, changes: dict[Name, int | Digits]) -> Words:
        """The numbers of those states in ``mask``, with these fields changed."""
        chosen = np.flatnonzero(mask)
        words = self.words[chosen]
        for name, value in changes.items():
            was = self.get(*name)[chosen].astype(np.int64)
            becomes = value if isinstance(value, int) else value[chosen].astype(np.int64)
            # Wraps around where a digit becomes less, and comes out right.
            words += (becomes - was).view(np.uint64) * np.uint64(self.layout.digits[name][0])
        return words


# -- folding ------------------------------------------------------------------------------------


def folded(layout: Layout, words: Words) -> Words:
    """One number for all states that differ only in which worker is which, and which reference."""
    orders = permutations(range(layout.world.references))
    least, *others = [_renamed(layout, _in_order(layout, words, each)) for each in orders]
    for other in others:
        least = np.minimum(least, other)
    return least


def _in_order(layout: Layout, words: Words, order: tuple[int, ...]) -> Words:
    """The states with their references in another order."""
    if order == tuple(sorted(order)):
        return words
    block, places = np.uint64(layout.block), [np.uint64(each) for each in layout.places]
    blocks = [words // place % block for place in places]
    moved = words % places[0]
    for place, source in zip(places, order, strict=True):
        moved += blocks[source] * place
    return moved


def _renamed(layout: Layout, words: Words) -> Words:
    """The states with their workers numbered as the references name them."""
    world = layout.world
    frontier = Frontier(layout, words)
    names = np.full((len(words), world.workers), world.workers, np.uint8)
    named = np.zeros(len(words), np.uint8)
    rows = np.arange(len(words))
    renamed = words.copy()
    for rref in range(world.references):
        there = frontier.get("owner", rref) != layout.unmade
        for field, fork in (("owner", -1), *(("at", fork) for fork in range(world.forks))):
            if field == "at":
                there = frontier.get("stage", rref, fork) != Stage.UNUSED
            workers = np.where(there, frontier.get(field, rref, fork), np.uint8(0))
            new = there & (names[rows, workers] == world.workers)
            names[rows[new], workers[new]] = named[new]
            named += new
            change = names[rows, workers].astype(np.int64) - workers
            change[~there] = 0
            renamed += change.view(np.uint64) * np.uint64(layout.digits[field, rref, fork][0])
    return renamed
