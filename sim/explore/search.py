"""The search: every order of a small program, each distinct behaviour once.

Source-DPOR with sleep sets (Abdulla, Aronis, Jonsson, Sagonas, Optimal Dynamic Partial Order
Reduction, POPL 2014, section 5; Source Sets, JACM 2017). Nothing is saved or restored: a run is its
choices, and each one begins from nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from squall.model.events.run import Violation
from squall.sim.explore.execution import Execution, How, Pruned
from squall.sim.explore.frames import Frame, UnsoundError
from squall.sim.explore.subject import Subject
from squall.sim.explore.touches import told
from squall.sim.world.choosing import CrowdedError
from squall.sim.world.garbage import settle

#: executions between two collections of what runs have left in cycles
_SETTLE_EVERY = 200


class Budget(NamedTuple):
    """When a search gives up: after so many more executions, or seconds of real time; None: never."""

    executions: int | None = None
    seconds: float | None = None


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
    #: whether all threads of a worker were taken at some time
    crowded: bool = False
    #: the choices on the way to the next execution, if the search was not exhausted
    frontier: list[Frame] = field(default_factory=list)
    exhausted: bool = False
    interrupted: bool = False
    left: float = 0.0

    @property
    def executions(self) -> int:
        return self.complete + self.pruned

    @property
    def per_second(self) -> float:
        return self.executions / self.seconds if self.seconds else 0.0


def explore(
    subject: Subject,
    how: How = How(),  # noqa: B008
    *,
    reduced: bool = True,
    budget: Budget = Budget(),  # noqa: B008
    stop_at_first: bool = False,
    since: Explored | None = None,
    on_execution: Callable[[Explored], object] | None = None,
) -> Explored:
    """Run ``subject`` in every order that can make a difference, or until the budget is spent.

    ``how`` says what a step is, and what it depends on. ``reduced`` False: in every order there is,
    to check the reduction with. ``stop_at_first``: give up at the first execution in which something
    does not hold. ``since``: go on with a search of the same subject that was not exhausted.
    ``on_execution`` is called after each. An interrupt ends the search as a spent budget does.
    Raises :class:`~squall.sim.world.choosing.GrainError`,
    :class:`~squall.sim.world.choosing.NotExplorableError`, and RuntimeError where executions
    contradict what was taken for independent.
    """
    explored = since or Explored()
    tell = on_execution or (lambda _: None)
    try:
        with told():
            try:
                return _explore(explored, subject, how, reduced, budget, stop_at_first, tell)
            except CrowdedError:
                explored = Explored(crowded=True)
                return _explore(explored, subject, how, reduced, budget, stop_at_first, tell)
    except UnsoundError as error:
        raise RuntimeError(str(error)) from None


def _explore(
    explored: Explored,
    subject: Subject,
    how: How,
    reduced: bool,
    budget: Budget,
    stop_at_first: bool,
    on_execution: Callable[[Explored], object],
) -> Explored:
    frames = explored.frontier
    how = how._replace(crowded=explored.crowded)
    began = time.monotonic() - explored.seconds
    last = explored.executions + (budget.executions or 0)
    deadline = time.monotonic() + (budget.seconds or 0.0)
    settle()
    while True:
        known = len(frames)
        execution = Execution(frames, how, reduced=reduced)
        try:
            ended = subject(execution)
        except Pruned:
            explored.pruned += 1
        except KeyboardInterrupt:
            explored.interrupted = True
            del frames[known:]  # what it had come to is run again
            return explored
        else:
            explored.complete += 1
            explored.classes.add(execution.order.key)
            _note(explored, ended.state, ended.violations, frames)
        explored.longest = max(explored.longest, execution.steps)
        while frames and not frames[-1].next():
            frames.pop()
        explored.exhausted = not frames
        explored.left = _left(frames, explored.executions)
        explored.seconds = time.monotonic() - began
        on_execution(explored)
        if explored.exhausted or (stop_at_first and explored.found):
            return explored
        if budget.executions is not None and explored.executions >= last:
            return explored
        if budget.seconds is not None and time.monotonic() >= deadline:
            return explored
        if explored.executions % _SETTLE_EVERY == 0:
            settle()


def _note(
    explored: Explored, state: str, violations: tuple[Violation, ...], frames: list[Frame]
) -> None:
    if state not in explored.states:
        explored.choices_of[state] = choices_of(frames)
    explored.states[state] = explored.states.get(state, 0) + 1
    explored.failed += bool(violations)
    for violation in violations:
        key = violation.property, violation.what
        if key not in explored.found:
            explored.found[key] = Found(violation, choices_of(frames), explored.executions)


def choices_of(frames: list[Frame]) -> tuple[int, ...]:
    """The names of what was chosen, where there was a choice."""
    return tuple(frame.chosen for frame in frames if len(frame.enabled) > 1)


def _left(frames: list[Frame], executions: int) -> float:
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
