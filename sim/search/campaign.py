"""A campaign: many seeds judged, and what was found, each kind of failure once."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

from squall.model.coverage.features import feature_names
from squall.model.coverage.growth import Seen
from squall.model.coverage.sometimes import situations
from squall.sim.faults.plan import KINDS
from squall.sim.names import MAX_SEED, EngineName
from squall.sim.scenarios.failure import Failure, with_expectation
from squall.sim.search.corpus import corpus_for
from squall.sim.search.covers import SHARE, cover_for
from squall.sim.search.draw import Settings
from squall.sim.search.judge import Source, Verdict, judge_all
from squall.sim.search.schedules import Rescheduled, rescheduled
from squall.sim.world import interrupts


@dataclass
class Found:
    """In how many scenarios of the seeds, and of the cover, a failure was the first thing to break.

    ``first``: the first of them; None if only stored scenarios showed it. ``again``: of ``played``
    other schedules of its program, how many have shown it as well, if that was asked
    (sim/search/failure_rates.py).
    """

    seeds: int = 0
    cover: int = 0
    first: int | Rescheduled | None = None
    again: int = 0
    played: int = 0

    def add(self, verdict: Verdict) -> None:
        if verdict.of_cover:
            self.cover += 1
        elif not verdict.name:
            self.seeds += 1
        if self.first is None:
            self.first = rescheduled(verdict.name) if verdict.name else verdict.seed


@dataclass
class Campaign:
    """What a campaign has found so far."""

    engine: EngineName = "port"
    #: seeds whose scenarios were judged, scenarios of the corpus, and of the distilled cover
    scenarios: int = 0
    corpus: int = 0
    cover: int = 0
    #: by property and what broke, in the order in which they were found
    failures: dict[tuple[str | None, str | None], Failure] = field(default_factory=dict)
    #: by the same keys, where they were found
    found: dict[tuple[str | None, str | None], Found] = field(default_factory=dict)
    failed: int = 0
    hangs: int = 0
    #: why the last scenario hangs, if it does
    last_hang: tuple[str, ...] = ()
    events: int = 0
    features: Counter[str] = field(default_factory=Counter)
    #: in how many scenarios each rare situation was reached
    sometimes: Counter[str] = field(default_factory=Counter)
    #: how often each kind of fault happened
    faults: Counter[str] = field(default_factory=Counter)
    #: how often checks gave up, by excuse
    excused: Counter[str] = field(default_factory=Counter)
    #: what the scenarios have shown, and the seeds that showed something for the first time
    seen: Seen = field(default_factory=Seen)
    novel: list[int] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def unchecked(self) -> str | None:
        """Why nothing of what was asked for was checked; None if something was."""
        if not self.scenarios:
            stored = f", {self.corpus:,} stored ones were" if self.corpus else ""
            return f"0 scenarios of seeds were judged{stored}"
        return None

    @property
    def scenarios_per_second(self) -> float:
        return self.scenarios / self.seconds if self.seconds else 0.0

    def add(self, verdict: Verdict) -> Failure | None:
        """Count a verdict. Returns the failure if it is of a new kind."""
        if verdict.of_cover:
            self.cover += 1
        elif verdict.name:
            self.corpus += 1
        else:
            self.scenarios += 1
        self.hangs += bool(verdict.hangs)
        self.last_hang = verdict.hangs
        self.events += verdict.events
        self.features.update(verdict.features)
        self.sometimes.update(verdict.sometimes)
        if verdict.facts:
            new = self.seen.add(array("Q", verdict.facts), verdict.sometimes)
            if new and verdict.ok and not verdict.name:
                self.novel.append(verdict.seed)
        for kind, times in verdict.faults:
            self.faults[kind] += times
        for name, times in verdict.excused:
            self.excused[name] += times
        if verdict.ok:
            return None
        self.failed += 1
        first, *also = verdict.violations
        assert verdict.scenario is not None, "what fails comes with its scenario"
        scenario = with_expectation(
            verdict.scenario, first, outcome="failed", digest=verdict.digest or None
        )
        failure = Failure(
            scenario=scenario, violation=first, text=str(first), also=also, found_by="fuzz"
        )
        self.found.setdefault(failure.key, Found()).add(verdict)
        known = self.failures.get(failure.key)
        if known is not None:
            known.count += 1
            return None
        self.failures[failure.key] = failure
        return failure

    def feature_counts(self) -> dict[str, int]:
        """In how many scenarios each feature occurred, those that never did included."""
        return {name: self.features[name] for name in feature_names()}

    def sometimes_counts(self) -> dict[str, int]:
        """In how many scenarios each rare situation was reached, 0 for those that never were.
        Situations that cannot be observed on the engine are left out."""
        return {name: self.sometimes[name] for name in situations(self.engine)}

    def fault_counts(self) -> dict[str, int]:
        """How often each kind of fault happened, those that never did included."""
        return {kind: self.faults[kind] for kind in KINDS}


def before(seeds: range, settings: Settings) -> list[Source]:
    """What a campaign of these seeds plays before them: the corpus, and the cover on the schedule
    that the first of them numbers, at most one scenario for :data:`SHARE` seeds.

    Raises CoverError if the cover of this folder cannot be read.
    """
    sources: list[Source] = [*corpus_for(settings)]
    cover = cover_for(settings)
    if cover is not None:
        sources += cover.on(seeds.start, (seeds.stop - seeds.start) // SHARE)
    return sources


def run_campaign(
    seeds: range | None = None,
    settings: Settings = Settings(),  # noqa: B008 - it never changes
    *,
    first: Iterable[Source] | None = None,
    minutes: float | None = None,
    enough: Callable[[Campaign], bool] | None = None,
    jobs: int = 1,
    on_verdict: Callable[[Verdict, Failure | None, Campaign], object] | None = None,
) -> Campaign:
    """Judge what comes ``first``, then ``seeds`` (from 0 on, if there are none given), for
    ``minutes`` at most, and until there is ``enough``.

    ``first`` None: the corpus.
    ``on_verdict`` is called with each verdict, and with the failure if it is of a new kind. An
    interrupt, or a request to terminate, ends the campaign and keeps what it has found; a second
    one ends the process. For the main thread.
    """
    campaign = Campaign(settings.engine)
    started = time.perf_counter()
    seeds = range(MAX_SEED) if seeds is None else seeds
    sources = chain(corpus_for(settings) if first is None else first, seeds)
    verdicts = judge_all(sources, settings, jobs=jobs)

    with interrupts.heard():
        try:
            for verdict in verdicts:
                with interrupts.deferred():  # a verdict counts, and what it found is kept
                    failure = campaign.add(verdict)
                    campaign.seconds = time.perf_counter() - started
                    if on_verdict is not None:
                        on_verdict(verdict, failure, campaign)
                if minutes is not None and campaign.seconds >= minutes * 60:
                    break
                if enough is not None and enough(campaign):
                    break
        except KeyboardInterrupt:
            campaign.interrupted = True
        finally:
            with interrupts.deferred():
                verdicts.close()
    campaign.seconds = time.perf_counter() - started
    return campaign
