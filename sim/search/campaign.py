"""A campaign: many seeds judged, and what was found, each kind of failure once."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain, count

from squall.model.coverage.features import feature_names
from squall.model.coverage.growth import Seen
from squall.model.coverage.sometimes import situations
from squall.sim.faults.plan import KINDS
from squall.sim.names import EngineName
from squall.sim.scenarios.failure import Failure, with_expectation
from squall.sim.search.corpus import corpus_for
from squall.sim.search.draw import Settings
from squall.sim.search.judge import Source, Verdict, judge_all
from squall.sim.world import interrupts


@dataclass
class Campaign:
    """What a campaign has found so far."""

    engine: EngineName = "port"
    #: seeds whose scenarios were judged, and scenarios of the corpus
    scenarios: int = 0
    corpus: int = 0
    #: by property and what broke, in the order in which they were found
    failures: dict[tuple[str | None, str | None], Failure] = field(default_factory=dict)
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
    #: what the scenarios have shown
    seen: Seen = field(default_factory=Seen)
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
        if verdict.corpus:
            self.corpus += 1
        else:
            self.scenarios += 1
        self.hangs += bool(verdict.hangs)
        self.last_hang = verdict.hangs
        self.events += verdict.events
        self.features.update(verdict.features)
        self.sometimes.update(verdict.sometimes)
        if verdict.facts:
            self.seen.add(array("Q", verdict.facts))
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


def run_campaign(
    seeds: Iterable[int] | None = None,
    settings: Settings = Settings(),  # noqa: B008 - it never changes
    *,
    minutes: float | None = None,
    jobs: int = 1,
    on_verdict: Callable[[Verdict, Failure | None, Campaign], object] | None = None,
) -> Campaign:
    """Judge the corpus first, then ``seeds`` (from 0 on, if there are none given), for ``minutes``
    at most.

    ``on_verdict`` is called with each verdict, and with the failure if it is of a new kind. An
    interrupt, or a request to terminate, ends the campaign and keeps what it has found; a second
    one ends the process. For the main thread.
    """
    campaign = Campaign(settings.engine)
    started = time.perf_counter()
    sources: Iterable[Source] = chain(corpus_for(settings), count() if seeds is None else seeds)
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
        except KeyboardInterrupt:
            campaign.interrupted = True
        finally:
            with interrupts.deferred():
                verdicts.close()
    campaign.seconds = time.perf_counter() - started
    return campaign
