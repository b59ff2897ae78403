"""An execution that fails as a scenario that ``squall replay`` plays again, with few choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from squall.model.events.run import Run, Violation
from squall.sim.explore.alternatives import PassedOver
from squall.sim.explore.execution import How
from squall.sim.explore.target import Subject
from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.failure import with_expectation
from squall.sim.scenarios.replay import replay
from squall.sim.world.schedule import FIFO, Schedule

#: runs that making it small may take
_MOST_TRIED = 300
#: real seconds that one of them may take
_SECONDS = 20.0


def plain(scenario: Scenario) -> Scenario:
    """The scenario without what an exploration takes the place of: latencies, bandwidth, order."""
    faults = replace(scenario.faults, schedule=FIFO)
    expected = Expected(mutant=scenario.expected.mutant)
    scenario = replace(scenario, expected=expected, profile=None)
    return scenario.in_world(latency="0", bandwidth_bytes_per_s=None, faults=faults)


def counterexample(
    scenario: Scenario, how: How, violation: Violation, choices: tuple[int, ...], subject: Subject
) -> Scenario:
    """``scenario`` with an order in which ``violation`` shows, made from the ``choices`` of an
    execution that showed it: as few of them as were found to do, or another one alone if that does,
    and what to expect of a replay. So an order with two names or fewer is the shortest.

    ``subject`` runs the scenario. A bug that this names is for the caller to plant.
    """

    def ordered(left: tuple[int, ...]) -> Scenario:
        schedule = Schedule(grain=how.grain, ordered=how.ordered, chosen=left)
        return scenario.in_world(faults=replace(scenario.faults, schedule=schedule))

    key = violation.property, violation.what

    def shows(left: tuple[int, ...]) -> bool:
        return any((each.property, each.what) == key for each in _run(ordered(left)).violations)

    names = fewest(choices, shows)
    if len(names) > 1:
        names = next(filter(shows, single(subject, how)), names)
    best = ordered(names)
    run = _run(best)
    return with_expectation(best, violation, outcome=run.outcome, digest=run.digest)


def fewest(choices: tuple[int, ...], shows: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """Few of the choices for which ``shows`` still holds: none of those that are left can be left
    out alone, unless that takes too many tries."""
    tried = 0
    best = choices
    size = len(best)
    while size:
        at = 0
        while at < len(best) and tried < _MOST_TRIED:
            tried += 1
            fewer = best[:at] + best[at + size :]
            if shows(fewer):
                best = fewer
            else:
                at += size
        size //= 2
    return best


def single(subject: Subject, how: How) -> Iterator[tuple[int, ...]]:
    """The orders of one name that are not first come, first served."""
    order = PassedOver((), grain=how.grain, ordered=how.ordered)
    subject(order)
    for name in islice(order.passed_over, _MOST_TRIED):
        yield (name,)


def _run(scenario: Scenario) -> Run:
    return replay(replace(scenario, expected=Expected()), seconds=_SECONDS)
