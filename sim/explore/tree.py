"""The tree of choices: those on the way of an execution, what was tried at each and need not be,
and what the executions have come to.

A part of the tree can be explored apart (:class:`Subtree`): by another process, or ahead of its
turn. What follows a choice depends on nothing but the way to it and what sleeps there. What it asks
for is another matter: races within it may need other choices to be tried on the way to it. These
are kept (:attr:`Outer.needed`) and made good when its turn has come, in the order in which one
process alone would have come upon them. So the tree is the same, however it was shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from squall.model.events.run import Violation
from squall.sim.explore.order import independent
from squall.sim.explore.target import Ended
from squall.sim.world.controlled_time import Footprint

_NOTHING: Footprint = {}


class UnsoundError(BaseException):
    """The exploration itself is wrong: two executions contradict what was taken for independent.

    No code under test handles it.
    """


class Frame:
    """One choice: the names of what could go next, and of what was or is to be tried.

    ``asleep`` are those that need not be tried, with what they touch: an execution in which they
    come first here has been explored, and what came since does not depend on them. ``ahead``: what
    has been explored before its turn of what follows those that are still to be tried.
    """

    __slots__ = ("ahead", "asleep", "chosen", "enabled", "footprint", "to_try", "tried")

    def __init__(self, enabled: frozenset[int], asleep: dict[int, Footprint]) -> None:
        self.enabled = enabled
        self.asleep = asleep
        self.to_try: dict[int, None] = {}
        self.tried = 0
        self.chosen = -1
        #: what the step touched that was chosen last
        self.footprint: Footprint = {}
        self.ahead: dict[int, Subtree] = {}

    def choose(self, name: int) -> None:
        self.to_try[name] = None
        self.chosen = name
        self.tried += 1

    def next(self) -> bool:
        """Go on to what is to be tried next; False if nothing is left here."""
        self.asleep[self.chosen] = self.footprint
        for name in self.to_try:
            if name not in self.asleep:
                self.choose(name)
                return True
        return False

    def need(self, names: Iterable[int]) -> int | None:
        """One of ``names`` has to be tried here: the one that is to be, or None if one is already,
        or sleeps."""
        first = None
        for name in names:
            if name in self.to_try or name in self.asleep:
                return None
            if first is None:
                first = name
        if first is not None:
            if first not in self.enabled:
                raise UnsoundError(
                    "a step that depends on another one could not go before it: what the steps "
                    "touch does not say all"
                )
            self.to_try[first] = None
        return first

    def asleep_after(self) -> dict[int, Footprint]:
        """What sleeps once the chosen step is done."""
        return {
            name: footprint
            for name, footprint in self.asleep.items()
            if name != self.chosen and independent(footprint, self.footprint)
        }


class Outer(Frame):
    """A choice on the way to a subtree that is explored apart: another process has it, and is to be
    told what has to be tried there."""

    __slots__ = ("needed",)

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.enabled, dict.fromkeys(frame.asleep, _NOTHING))
        self.to_try = dict.fromkeys(frame.to_try)
        self.chosen = frame.chosen
        #: one of each of these has to be tried
        self.needed: dict[tuple[int, ...], None] = {}

    def need(self, names: Iterable[int]) -> int | None:
        """One of ``names`` has to be tried here: to be told, unless one is already, or sleeps."""
        wanted = tuple(names)
        if not any(name in self.to_try or name in self.asleep for name in wanted):
            self.needed[wanted] = None
        return None


class Found(NamedTuple):
    """Something that did not hold, the choices of the execution that showed it, and how many
    executions there had been."""

    violation: Violation
    choices: tuple[int, ...]
    executions: int


@dataclass
class Explored:
    """What a search has come to so far.

    ``complete`` executions came to their end, ``pruned`` ones were left as soon as everything that
    could go next was known to have been explored. ``states``: how many executions ended in each,
    and the choices of the first of them. ``left``: about how many executions are still to come,
    after Knuth (Estimating the Efficiency of Backtrack Programs, 1975), 0 if none.
    """

    complete: int = 0
    pruned: int = 0
    classes: set[int] = field(default_factory=set)
    states: dict[str, int] = field(default_factory=dict)
    choices_of: dict[str, tuple[int, ...]] = field(default_factory=dict)
    found: dict[tuple[str, str], Found] = field(default_factory=dict)
    #: executions in which something did not hold
    failed: int = 0
    longest: int = 0
    seconds: float = 0.0
    #: how many messages of each type went from a worker to another in one execution, at most
    sent: dict[tuple[str, int, int], int] = field(default_factory=dict)
    #: rare situations that any execution has reached
    situations: set[str] = field(default_factory=set)
    #: whether all threads of a worker were taken at some time
    crowded: bool = False
    #: the choices on the way to the next execution, if the search was not exhausted
    frontier: list[Frame] = field(default_factory=list)
    exhausted: bool = False
    interrupted: bool = False
    left: float = 0.0
    #: executions of other processes that are not counted yet
    elsewhere: int = 0

    @property
    def executions(self) -> int:
        return self.complete + self.pruned

    @property
    def per_second(self) -> float:
        return (self.executions + self.elsewhere) / self.seconds if self.seconds else 0.0

    def note(self, ended: Ended, key: int) -> None:
        """Count an execution that has come to its end; ``key`` says which class it is of."""
        self.complete += 1
        self.classes.add(key)
        if ended.state not in self.states:
            self.choices_of[ended.state] = choices_of(self.frontier)
        self.states[ended.state] = self.states.get(ended.state, 0) + 1
        self._note_sent(ended.sent)
        self.situations |= ended.situations
        self.failed += bool(ended.violations)
        for violation in ended.violations:
            key_of = violation.property, violation.what
            if key_of not in self.found:
                self.found[key_of] = Found(violation, choices_of(self.frontier), self.executions)

    def add(self, later: Explored) -> None:
        """Count what was explored apart, as if it had been explored just now."""
        before = self.executions
        self.complete += later.complete
        self.pruned += later.pruned
        self.classes |= later.classes
        for state, executions in later.states.items():
            self.choices_of.setdefault(state, later.choices_of[state])
            self.states[state] = self.states.get(state, 0) + executions
        for key, found in later.found.items():
            if key not in self.found:
                self.found[key] = found._replace(executions=before + found.executions)
        self.failed += later.failed
        self.longest = max(self.longest, later.longest)
        self._note_sent(later.sent)
        self.situations |= later.situations

    def with_all_ahead(self) -> Explored:
        """This, and what has been explored of the choices that come later; not to be gone on with."""
        ahead = list(_ahead(self.frontier))
        if not ahead:
            return self
        whole = Explored(
            seconds=self.seconds,
            crowded=self.crowded,
            interrupted=self.interrupted,
            left=max(0.0, self.left - sum(each.executions for each in ahead)),
        )
        for each in (self, *ahead):
            whole.add(each)
        return whole

    def _note_sent(self, sent: Mapping[tuple[str, int, int], int]) -> None:
        for link, times in sent.items():
            if times > self.sent.get(link, 0):
                self.sent[link] = times


def choices_of(frames: Iterable[Frame]) -> tuple[int, ...]:
    """The names of what was chosen, where there was a choice."""
    return tuple(frame.chosen for frame in frames if len(frame.enabled) > 1)


def _ahead(frames: list[Frame]) -> Iterator[Explored]:
    for frame in reversed(frames):
        for subtree in frame.ahead.values():
            yield subtree.explored


def estimate_left(frames: list[Frame], executions: int) -> float:
    """About how many executions are still to come: the share of the tree that is done is taken
    from how many branches of each choice on the way are, all of them being of one size."""
    if not frames:
        return 0.0
    done, share = 0.0, 1.0
    for frame in frames:
        branches = len(frame.to_try)
        share /= branches
        done += share * (frame.tried - 1)
    return executions / done - executions if done else float("inf")


@dataclass
class Subtree:
    """What follows the choice ``way[-1].chosen``, with what has been explored of it.

    ``way``: the choices before and up to it, with what the subtree needs of them; those within it
    are ``explored.frontier``, of which the first comes right after.
    """

    way: list[Outer]
    explored: Explored = field(default_factory=Explored)

    @property
    def executions(self) -> int:
        return self.explored.executions

    @property
    def exhausted(self) -> bool:
        return self.explored.exhausted

    @property
    def footprint(self) -> Footprint | None:
        """What the step touched that it begins with; None if it has not been run yet."""
        return self.way[-1].footprint if self.executions else None

    def put_back(self, explored: Explored) -> None:
        """Count it as explored now, in ``explored``, whose last choice is the one that it follows.

        What is not explored of it comes next there.
        """
        frames = explored.frontier
        explored.add(self.explored)
        for frame, outer in zip(frames, self.way, strict=True):
            for names in outer.needed:
                frame.need(names)
        frames[-1].footprint = self.way[-1].footprint
        frames += self.explored.frontier


def next_subtrees(frames: list[Frame], taken: frozenset[tuple[int, int]]) -> Iterator[Subtree]:
    """What is to be explored later anyway and could be already, the largest first: those that
    follow the choices that come next at each frame, the earliest frames first.

    ``taken``: numbers of frames and names at which others are, which are known to have been begun.
    """
    for at, frame in enumerate(frames):
        asleep = {**frame.asleep, frame.chosen: frame.footprint}
        for name in frame.to_try:
            if name in asleep:
                continue
            if (at, name) in taken:
                break  # what it touches is not known yet
            ahead = frame.ahead.get(name)
            if ahead is not None and (ahead.exhausted and ahead.footprint is not None):
                asleep[name] = ahead.footprint
                continue
            if ahead is not None:
                yield ahead
                break
            way = [Outer(each) for each in frames[: at + 1]]
            way[-1].asleep, way[-1].chosen = asleep, name
            yield Subtree(way)
            break
