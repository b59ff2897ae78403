"""What a process does in which a bug is planted: one scenario after the other, until one fails."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from multiprocessing.connection import Connection
from types import CodeType
from typing import NamedTuple

from squall.model.events.run import Violation
from squall.sim.scenario import Scenario
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.corpus import corpus_for
from squall.sim.search.covers import Cover, shipped
from squall.sim.search.draw import PROFILES, Settings, draw, settings_of
from squall.sim.search.judge import judge
from squall.sim.search.mutants.clean_process import CleanProcess
from squall.sim.search.mutants.mutant import DRAWN, Mutant
from squall.sim.search.mutants.result import CRASH
from squall.sim.search.schedules import Rescheduled
from squall.sim.stock.shared import computed_s
from squall.sim.world.sandbox import end_with_parent

#: seconds to look for a smaller scenario that fails too
SMALLER_S = 1.0
#: characters of what broke that are told
_MOST_SAID = 300


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a campaign tries: for ``seconds`` of one core at most, ``seeds`` (None: all from 0 on),
    with the faults of ``profile`` (None: those that the mutant needs; of one that was drawn, none and
    all in turn). ``corpus`` and ``cover``:
    whether these come first; ``covers`` takes the place of those of squall, by profile.
    ``smaller_s``: seconds to look for a smaller scenario that fails too."""

    seconds: float = 60.0
    smaller_s: float = SMALLER_S
    seeds: Sequence[int] | None = None
    profile: str | None = None
    corpus: bool = True
    cover: bool = False
    covers: Mapping[str, Cover] | None = None

    def profiles(self, mutant: Mutant) -> tuple[str, ...]:
        if self.profile is not None:
            return (self.profile,)
        if mutant.origin == DRAWN:  # what it needs is not known
            return ("", *PROFILES)
        return PROFILES if mutant.needs_faults else ("",)

    def stored(self, mutant: Mutant) -> list[Scenario]:
        """The scenarios of the corpus, unless faults are named."""
        wanted = self.corpus and not mutant.groups and self.profiles(mutant) == ("",)
        return corpus_for(Settings(device=mutant.device)) if wanted else []

    def scenarios(self, mutant: Mutant) -> Iterator[Scenario]:
        """One scenario of the campaign after the other: the covers first, if asked for and unless
        seeds are named."""
        all_settings = [
            settings_of(profile)._replace(
                device=mutant.device,
                groups=mutant.groups,
                engine="torch" if mutant.groups else "port",
            )
            for profile in self.profiles(mutant)
        ]
        if (
            self.cover
            and not mutant.groups
            and mutant.device == "cpu"
            and (self.seeds is None or self.covers is not None)
        ):
            for sources in zip_longest(*map(self._covering, all_settings)):
                for source, settings in zip(sources, all_settings, strict=True):
                    if source is not None:
                        yield draw(source, settings)
        for seed in count() if self.seeds is None else self.seeds:
            for settings in all_settings:
                yield draw(seed, settings)

    def _covering(self, settings: Settings) -> list[Rescheduled]:
        profile = settings.profile or ""
        cover = shipped(profile) if self.covers is None else self.covers.get(profile)
        schedule = 0 if self.seeds is None else self.seeds[0]
        return [] if cover is None else cover.on(schedule)


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


def attack(
    connection: Connection,
    mutant: Mutant,
    code: CodeType,
    scenarios: Iterable[Scenario],
    limits: Limits,
) -> None:
    """Try a bug, ``code`` being that of the function with it, on ``scenarios`` for as many
    seconds of a core as the ``limits`` say, and send what happens."""
    end_with_parent()
    logging.disable(logging.CRITICAL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    try:
        clean = CleanProcess(mutant.device)
        with clean as clean_process, campaign_settings(mutant.device):
            _attack(connection, mutant, code, scenarios, limits, clean_process)
    except Exception as error:
        connection.send(Problem(f"{type(error).__name__}: {error}"))


def _attack(
    connection: Connection,
    mutant: Mutant,
    code: CodeType,
    scenarios: Iterable[Scenario],
    limits: Limits,
    clean_process: CleanProcess,
) -> None:
    started = _computed_s()
    until = started + limits.seconds
    killed = False
    for scenario in scenarios:
        connection.send(Starting(scenario))
        found = None
        with mutant.apply(code):
            broken = _broken(scenario)
        now = _computed_s()
        # What fails without the bug too says nothing about it. Each training has processes of its own, copied of
        # one without it; to start those of another process would take longer than all else.
        if broken and (judge(scenario).ok if mutant.groups else clean_process.holds(scenario)):
            found = failure_of(scenario, broken)
            if not killed:
                killed = True
                until = min(until, now + limits.smaller_s)
        connection.send(Ended(now - started, found))
        if now >= until:
            return


def _computed_s() -> float:
    """Seconds of a processor of this process, and of those that scenarios are played in."""
    return time.process_time() + computed_s()


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
