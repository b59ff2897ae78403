"""What a process does in which a bug is planted: one scenario after the other, until one fails."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from types import CodeType
from typing import NamedTuple

from squall.model.events.run import Violation
from squall.sim.scenario import Scenario
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.corpus import corpus_for
from squall.sim.search.draw import PROFILES, Settings, draw, settings_of
from squall.sim.search.judge import judge
from squall.sim.search.mutants.clean_process import CleanProcess
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.result import CRASH

#: seconds to look for a smaller scenario that fails too
SMALLER_S = 1.0
#: characters of what broke that are told
_MOST_SAID = 300


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a campaign tries: for ``seconds`` of one core at most, ``seeds`` (None: all from 0 on),
    with the faults of ``profile`` (None: those that the mutant needs)."""

    seconds: float = 60.0
    seeds: Sequence[int] | None = None
    profile: str | None = None

    def scenarios(self, mutant: Mutant) -> Iterator[Scenario]:
        """One scenario after the other: the corpus first, unless seeds or faults are named."""
        profiles: tuple[str, ...] = PROFILES if mutant.needs_faults else ("",)
        if self.profile is not None:
            profiles = (self.profile,)
        elif self.seeds is None and not mutant.needs_faults:
            yield from corpus_for(Settings())
        for seed in count() if self.seeds is None else self.seeds:
            for profile in profiles:
                yield draw(seed, settings_of(profile))


class Starting(NamedTuple):
    """A scenario is about to run."""

    scenario: Scenario


class Ended(NamedTuple):
    """It has run; ``found`` says that it failed. ``seconds`` of one core since the first began."""

    seconds: float
    found: Failure | None = None


class Problem(NamedTuple):
    """The trial cannot go on."""

    text: str


def attack(connection: Connection, mutant: Mutant, code: CodeType, limits: Limits) -> None:
    """Try a bug, ``code`` being that of the function with it, and send what happens."""
    logging.disable(logging.CRITICAL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    try:
        with CleanProcess() as clean_process, campaign_settings():
            _attack(connection, mutant, code, limits, clean_process)
    except Exception as error:
        connection.send(Problem(f"{type(error).__name__}: {error}"))


def _attack(
    connection: Connection,
    mutant: Mutant,
    code: CodeType,
    limits: Limits,
    clean_process: CleanProcess,
) -> None:
    started = time.process_time()
    until = started + limits.seconds
    killed = False
    for scenario in limits.scenarios(mutant):
        connection.send(Starting(scenario))
        found = None
        with mutant.apply(code):
            broken = _broken(scenario)
        now = time.process_time()
        # What fails without the bug too says nothing about it.
        if broken and clean_process.holds(scenario):
            found = failure_of(scenario, broken)
            if not killed:
                killed = True
                until = min(until, now + SMALLER_S)
        connection.send(Ended(now - started, found))
        if now > until:
            return


def _broken(scenario: Scenario) -> list[Violation]:
    """What does not hold in a scenario."""
    try:
        return list(judge(scenario).violations)
    except Exception as error:  # the run was so broken that it could not be judged
        return [Violation(CRASH, f"{type(error).__name__}: {error}", "a verdict", "none")]


def failure_of(scenario: Scenario, violations: list[Violation]) -> Failure:
    """The record of a scenario that failed with the bug."""
    first, *also = violations
    return Failure(scenario=scenario, violation=first, text=str(first)[:_MOST_SAID], also=also)
