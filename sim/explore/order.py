"""What happened before what in one execution: by steps that touch the same things.

Two steps are dependent if one queued the other, or if both touch something and not in ways that
commute. The happens-before order is the smallest one that has dependent steps in the order in
which they were. Two executions with the same order differ in nothing but what came first of steps
that know nothing of each other.
"""

from __future__ import annotations

from squall.sim.world.controlled_time import EVERYTHING, Footprint, Touch

#: keys of traces have so many bits
_KEY_BITS = 64
_MASK = (1 << _KEY_BITS) - 1


def independent(one: Footprint, other: Footprint) -> bool:
    """Whether two steps commute that both could go next."""
    if EVERYTHING in one or EVERYTHING in other:
        return False
    if len(other) < len(one):
        one, other = other, one
    for what, how in one.items():
        met = other.get(what)
        if met is not None and (met != how or how == "write"):
            return False
    return True


class _Thing:
    """The last steps that touched something in one way, and those that touched it before them."""

    __slots__ = ("before", "how", "last")

    def __init__(self, step: int, how: Touch) -> None:
        self.how = how
        self.last = [step]
        self.before: list[int] = []


class Order:
    """The happens-before order of an execution, built step by step; steps are numbered from 0.

    ``names`` of the steps. ``before[j]`` has bit ``i`` set if step ``i`` happened before step ``j``.
    """

    def __init__(self) -> None:
        self.names: list[int] = []
        self.before: list[int] = []
        self._numbers: dict[int, int] = {}
        self._things: dict[object, _Thing] = {}
        #: a bit for each step that is before no other one
        self._latest = 0
        #: the last step that everything after it depends on
        self._wall = -1
        self._keys: list[int] = []
        self._key = 0

    @property
    def key(self) -> int:
        """A number that executions share if they have the same steps in the same order, and (but
        for one chance in 2**64) no others."""
        return self._key

    def add(self, name: int, parent: int | None, footprint: Footprint) -> list[int]:
        """Note the next step, which the step ``parent`` queued.

        Gives the earlier steps that depend on it with nothing in between, ``parent`` left out:
        those that another order might have had later.
        """
        before = self.before
        number = len(before)
        known = -1 if parent is None else self._numbers.get(parent, -1)
        after: dict[int, None] = {}
        if EVERYTHING in footprint:
            latest = self._latest
            while latest:
                lowest = latest & -latest
                after[lowest.bit_length() - 1] = None
                latest ^= lowest
        elif self._wall >= 0:
            after[self._wall] = None
        things = self._things
        for what, how in footprint.items():
            thing = things.get(what)
            if thing is None:
                things[what] = _Thing(number, how)
                continue
            if how != thing.how or how == "write":
                thing.before, thing.last, thing.how = thing.last, [number], how
            else:
                thing.last.append(number)
            for each in thing.before:
                after[each] = None
        if known >= 0:
            after[known] = None
        reached = behind = 0
        for each in after:
            reached |= before[each]
            behind |= 1 << each
        self.names.append(name)
        before.append(behind | reached)
        self._numbers[name] = number
        self._latest = self._latest & ~behind | 1 << number
        if EVERYTHING in footprint:
            self._wall = number
        direct = [each for each in after if not reached >> each & 1]
        self._count(name, direct)
        return [each for each in direct if each != known]

    def _count(self, name: int, direct: list[int]) -> None:
        keys, mixed = self._keys, 0
        for each in direct:
            mixed += keys[each]
        mixed ^= name
        mixed = (mixed * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) & _MASK
        mixed ^= mixed >> 29
        self._keys.append(mixed)
        self._key = (self._key + mixed * 0x9E3779B97F4A7C15) & _MASK

    def initials(self, i: int, j: int) -> list[int]:
        """Of the steps between ``i`` and ``j`` that do not come after ``i``, and then ``j``: those
        before which none of these comes. With one of them first, ``j`` could be before ``i``."""
        before = self.before
        taken = 0
        found = []
        for each in range(i + 1, j + 1):
            past = before[each]
            if each == j or not past >> i & 1:
                if not past & taken:
                    found.append(each)
                taken |= 1 << each
        return found
