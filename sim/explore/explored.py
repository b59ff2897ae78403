"""What an exploration has come to so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from squall.model.events.run import Violation
from squall.sim.explore.frames import Frame
from squall.sim.explore.subject import Ended


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
