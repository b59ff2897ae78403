"""The data of collectives on its way by the steps of an algorithm, from member to member.

Without it, what a member gives goes straight to each other one (sim/scripts/groups.py). Here steps go over the links,
empty but for their sizes, and what a member was given is handed to it when it has its last step. A step begins when
its sender has called and has what it is to pass on, and is over when it has arrived and its receiver has called; a
collective is over for a member when all steps to it and from it are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from squall.real.rpc.message_type import MessageType
from squall.sim.scripts.group import Listener, ProcessGroup, Wait
from squall.sim.world.algorithms import ALGORITHMS, Asked, Choice, Steps, Transfer
from squall.sim.world.pieces import Content, Part, Tag
from squall.sim.world.scheduler import SimRuntime

C = TypeVar("C", bound=Content)

#: what a collective is called in events, where that is not the name of its algorithms
_COLLECTIVES = {"all_gather_into_tensor": "all_gather"}
#: of whose data each block is an equal part
_WHOLE = ("all_reduce", "reduce", "broadcast", "reduce_scatter")


class Played:
    """The steps of one collective under way. ``ready``: called when there are steps that can begin, which
    :meth:`take` gives, once all that happens at this instant has happened; ``over``: for which member it is over."""

    def __init__(
        self, steps: Steps, ready: Callable[[], object], over: Callable[[int], object]
    ) -> None:
        self.steps = steps.steps
        self._ready, self._over = ready, over
        self._can_begin: list[int] = []
        needs = steps.needs()
        #: by step: how much it still waits for, its sender's call among that; and which steps wait for it
        self._missing = [len(each) + 1 for each in needs]
        self._then: list[list[int]] = [[] for _ in needs]
        for number, earlier in enumerate(needs):
            for each in earlier:
                self._then[each].append(number)
        #: by member: how many of its steps are not over
        self._left = Counter(end for step in self.steps for end in step[:2])
        #: by member that has not called: steps that have arrived there
        self._early: dict[int, list[int]] = {}
        self._called: set[int] = set()

    def called(self, member: int) -> None:
        """A member takes part from now on."""
        self._called.add(member)
        if not self._left[member]:
            self._over(member)
        for number, step in enumerate(self.steps):
            if step.src == member:
                self._one_less(number)
        for number in self._early.pop(member, ()):
            self._end(number)

    def arrived(self, number: int) -> None:
        """A step has."""
        for each in self._then[number]:
            self._one_less(each)
        dst = self.steps[number].dst
        if dst in self._called:
            self._end(number)
        else:
            self._early.setdefault(dst, []).append(number)

    def _end(self, number: int) -> None:
        for member in self.steps[number][:2]:
            self._left[member] -= 1
            if not self._left[member]:
                self._over(member)

    def take(self) -> list[int]:
        """The steps that begin now, in the order that the algorithm has for them."""
        begins, self._can_begin = sorted(self._can_begin), []
        return begins

    def _one_less(self, number: int) -> None:
        self._missing[number] -= 1
        if not self._missing[number]:
            self._can_begin.append(number)
            if len(self._can_begin) == 1:
                self._ready()


class _Collective(Generic[C]):
    """One of a group: who has called, and what each gave."""

    def __init__(
        self,
        runtime: SimRuntime,
        choice: Choice,
        listener: Listener[C],
        group: ProcessGroup[C],
        tag: Tag,
    ) -> None:
        self._runtime, self._choice = runtime, choice
        self._listener, self._group, self._tag = listener, group, tag
        self._kind = _COLLECTIVES.get(str(tag[0]), str(tag[0]))
        #: by member: its operation; and what it has not been handed of what it is given, by sender
        self._waits: dict[int, Wait[C]] = {}
        self._given: dict[int, dict[int, Part[C]]] = {}
        #: by block, where they differ; else of all of them
        self._block_bytes: dict[int, int] = {}
        self._size_bytes = 0.0
        self._steps: Steps | None = None
        self._played: Played | None = None
        self._over: set[int] = set()

    @property
    def is_over(self) -> bool:
        """For all members."""
        return len(self._over) == len(self._waits) == self._group.size

    def begin(self, wait: Wait[C], given: Mapping[int, Part[C]]) -> None:
        """A member has called."""
        member, wait.done = wait.rank, self._over
        self._waits[member] = wait
        for dst, each in given.items():
            self._given.setdefault(dst, {})[member] = each
            self._block_bytes[self._block(member, dst)] = each.size_bytes
        if self._played is not None:
            self._played.called(member)
        elif given:  # from now on it is known how much it is
            self._play(wait, [each.size_bytes for each in given.values()])
        for dst in sorted(self._over):
            self._hand(dst)

    def arrived(self, number: int) -> None:
        """A step has."""
        assert self._played is not None
        self._played.arrived(number)

    # -- inside ---------------------------------------------------------------------------

    def _block(self, src: int, dst: int) -> int:
        """Of what ``src`` gives ``dst``, where blocks are of different sizes."""
        if self._kind == "all_to_all":
            return src * self._group.size + dst
        return dst if self._kind == "scatter" else src

    def _play(self, wait: Wait[C], sizes: list[int]) -> None:
        self._size_bytes = max(sizes)
        if self._kind == "reduce_scatter":  # each part is sent but its own
            self._size_bytes = sum(sizes) * self._group.size / len(sizes)
        asked = Asked(self._group.size, int(wait.call.agreed.get("root", 0)), self._size_bytes)
        self._steps = self._choice.steps(self._kind, asked)
        self._played = Played(self._steps, self._begin_soon, self._ended)
        for member in [*self._waits]:
            self._played.called(member)

    def _bytes_of(self, step: Transfer) -> int:
        assert self._steps is not None
        if self._kind in _WHOLE:
            return round(self._size_bytes * len(step.blocks) / self._steps.blocks)
        return sum(self._block_bytes[block] for block in step.blocks)

    def _begin_soon(self) -> None:
        # Nobody's: a step goes on when the process that has made it possible ends.
        self._runtime.call_later(0.0, self._send).worker = None

    def _send(self) -> None:
        assert self._played is not None
        group = self._group
        for number in self._played.take():
            step = self._played.steps[number]
            given: Part[C] = Part(moved_bytes=self._bytes_of(step))
            group.carry(step.src, step.dst, MessageType.COLLECTIVE, (*self._tag, number), given)

    def _ended(self, member: int) -> None:
        """It has all, and what it was to pass on has arrived."""
        self._over.add(member)
        self._hand(member)

    def _hand(self, member: int) -> None:
        """Give a member what others have given it, and let it know that they are there."""
        wait, group = self._waits.get(member), self._group
        given = self._given.pop(member, {})
        for src in sorted(given):
            piece = group.piece(src, member, MessageType.COLLECTIVE, self._tag, given[src])
            self._listener.piece(group, src, member, piece)
        for reader in [*wait.readers] if wait is not None else ():
            self._listener.notice(group, self._tag, reader, member)


class Moves(Generic[C]):
    """Of all groups of a run, by the algorithms that ``choice`` takes."""

    def __init__(self, runtime: SimRuntime, choice: Choice) -> None:
        self._runtime, self._choice = runtime, choice
        self._under_way: dict[tuple[ProcessGroup[C], Tag], _Collective[C]] = {}

    def begin(
        self,
        listener: Listener[C],
        group: ProcessGroup[C],
        wait: Wait[C],
        given: Mapping[int, Part[C]],
    ) -> bool:
        """A member has called, and ``listener`` is told what it is handed. False if there are no steps for that."""
        key = group, wait.tag
        if group.size == 1 or _COLLECTIVES.get(wait.tag[0], wait.tag[0]) not in ALGORITHMS:
            return False
        if key not in self._under_way:
            self._under_way[key] = _Collective(
                self._runtime, self._choice, listener, group, wait.tag
            )
        self._under_way[key].begin(wait, given)
        self._forget(key)
        return True

    def arrived(self, group: ProcessGroup[C], tag: Tag) -> bool:
        """Whether what has come is a step."""
        *whole, number = tag
        key = group, tuple(whole)
        if key not in self._under_way:
            return False
        self._under_way[key].arrived(number)
        self._forget(key)
        return True

    def _forget(self, key: tuple[ProcessGroup[C], Tag]) -> None:
        if key in self._under_way and self._under_way[key].is_over:
            del self._under_way[key]
