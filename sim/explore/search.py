"""The search: every order of a small program, each distinct behaviour once.

Source-DPOR with sleep sets (Abdulla, Aronis, Jonsson, Sagonas, Optimal Dynamic Partial Order
Reduction, POPL 2014, section 5; Source Sets, JACM 2017). Nothing is saved or restored: a run is its
choices, and each one begins from nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from squall.sim.explore.dependencies import told
from squall.sim.explore.execution import Execution, How, Pruned
from squall.sim.explore.helpers import Helpers
from squall.sim.explore.target import Subject
from squall.sim.explore.tree import Explored, Subtree, UnsoundError, estimate_left
from squall.sim.world import interrupts
from squall.sim.world.controlled_time import CrowdedError
from squall.sim.world.garbage import settle

__all__ = ["HELP_AFTER", "Budget", "Explored", "explore"]

#: executions between two collections of what runs have left in cycles
_SETTLE_EVERY = 100
#: executions before other processes are asked to help: a small program is done sooner than they are
HELP_AFTER = 100


class Budget(NamedTuple):
    """When a search gives up: after so many more executions, or seconds of real time; None: never."""

    executions: int | None = None
    seconds: float | None = None

    def is_spent(self, executions: int, seconds: float) -> bool:
        return (self.executions is not None and executions >= self.executions) or (
            self.seconds is not None and seconds >= self.seconds
        )


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What is to be explored, and how: see :func:`explore`."""

    subject: Subject
    how: How
    reduced: bool
    budget: Budget
    stop_at_first: bool
    jobs: int
    on_execution: Callable[[Explored], object]


def explore(
    subject: Subject,
    how: How = How(),  # noqa: B008
    *,
    reduced: bool = True,
    budget: Budget = Budget(),  # noqa: B008
    stop_at_first: bool = False,
    since: Explored | None = None,
    jobs: int = 1,
    on_execution: Callable[[Explored], object] | None = None,
) -> Explored:
    """Run ``subject`` in every order that can make a difference, or until the budget is spent.

    ``how`` says what a step is, and what it depends on. ``reduced`` False: in every order there is,
    to check the reduction with. ``stop_at_first``: give up at the first execution in which something
    does not hold. ``since``: go on with a search of the same subject that was not exhausted.
    ``jobs``: so many processes share it; what it comes to is the same. ``on_execution`` is called
    after each one of this process. An interrupt ends the search as a spent budget does.
    Raises :class:`~squall.sim.world.controlled_time.GrainError`,
    :class:`~squall.sim.world.controlled_time.NotExplorableError`, and RuntimeError where executions
    contradict what was taken for independent, or one ends its process.
    """
    asked = _Asked(
        subject=subject,
        how=how,
        reduced=reduced,
        budget=budget,
        stop_at_first=stop_at_first,
        jobs=jobs,
        on_execution=on_execution or (lambda _: None),
    )
    explored = since or Explored()
    try:
        with told():
            try:
                return _explore(asked, explored)
            except CrowdedError:
                return _explore(asked, Explored(crowded=True))
    except UnsoundError as error:
        raise RuntimeError(str(error)) from None


def _explore(asked: _Asked, explored: Explored) -> Explored:
    budget, frames = asked.budget, explored.frontier
    explored.interrupted = False
    how = asked.how._replace(crowded=explored.crowded)
    began = time.monotonic() - explored.seconds
    before, started = explored.executions, time.monotonic()
    settle()
    with Helpers(asked.jobs - 1, _help, (asked.subject, how, asked.reduced)) as helpers:
        over = False
        while not over and _execute(asked.subject, how, asked.reduced, explored):
            with interrupts.deferred():
                _advance(explored, helpers)
                explored.exhausted = not frames
                explored.elsewhere = helpers.executions
                explored.left = max(0.0, estimate_left(frames, explored.executions))
                explored.seconds = time.monotonic() - began
                asked.on_execution(explored)
                found = bool(explored.found) or helpers.found
                done = explored.executions + explored.elsewhere
                over = (
                    explored.exhausted
                    or (asked.stop_at_first and found)
                    or budget.is_spent(done - before, time.monotonic() - started)
                )
                if not over and explored.executions >= HELP_AFTER:
                    helpers.share(frames)
        with interrupts.deferred():
            helpers.give_back(frames)
            explored.elsewhere = 0
    return explored


def _execute(subject: Subject, how: How, reduced: bool, explored: Explored) -> bool:
    """Run the next execution; False if it was interrupted, and is to be run again."""
    frames = explored.frontier
    known = len(frames)
    execution = Execution(frames, how, reduced=reduced)
    ended = None
    try:
        interrupts.check()
        ended = subject(execution)
    except Pruned:
        pass
    except KeyboardInterrupt:
        explored.interrupted = True
        del frames[known:]
        return False
    with interrupts.deferred():
        if ended is None:
            explored.pruned += 1
        else:
            explored.note(ended, execution.order.key)
        explored.longest = max(explored.longest, execution.steps)
        if explored.executions % _SETTLE_EVERY == 0:
            settle()
    return True


def _advance(explored: Explored, helpers: Helpers) -> None:
    """Go on to the choices of the next execution. What follows them may have been explored."""
    frames = explored.frontier
    while frames:
        if not frames[-1].next():
            frames.pop()
            continue
        subtree = helpers.take(frames)
        if subtree is None:
            return
        subtree.put_back(explored)
        if not subtree.exhausted:
            return


def _help(
    subtree: Subtree, goes_on: Callable[[Explored], bool], subject: Subject, how: How, reduced: bool
) -> None:
    """Explore what follows a choice, as long as ``goes_on`` says so."""
    explored = subtree.explored
    frames = explored.frontier
    root = len(subtree.way)
    frames[:0] = subtree.way
    while goes_on(explored):
        if not _execute(subject, how, reduced, explored):
            break
        while len(frames) > root and not frames[-1].next():
            frames.pop()
        explored.exhausted = len(frames) == root
        if explored.exhausted:
            break
    del frames[:root]
