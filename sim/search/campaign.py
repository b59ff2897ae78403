"""A campaign: many seeds judged, and what was found, each kind of failure once."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from types import FrameType

from squall.model.coverage.features import feature_names
from squall.model.coverage.sometimes import SITUATIONS
from squall.model.events.run import Violation
from squall.sim.faults.plan import KINDS
from squall.sim.search.judge import Given, Verdict, judge_all


@dataclass
class Failure:
    """One kind of thing that broke, and the first scenario that showed it."""

    seed: int
    violation: Violation
    #: scenarios in which it was the first thing to break
    count: int = 1
    #: everything else that broke in the first one
    also: list[Violation] = field(default_factory=list)
    #: of the first scenario, empty if there was no end
    digest: str = ""
    #: where its scenario is kept, once it is
    file: str | None = None

    @property
    def replay(self) -> str:
        """A command line that shows it again."""
        return f"squall replay {self.seed}"


@dataclass
class Campaign:
    """What a campaign has found so far."""

    scenarios: int = 0
    #: by property and what broke, in the order in which they were found
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)
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
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def scenarios_per_second(self) -> float:
        return self.scenarios / self.seconds if self.seconds else 0.0

    def add(self, verdict: Verdict) -> Failure | None:
        """Count a verdict. Returns the failure if it is of a new kind."""
        self.scenarios += 1
        self.hangs += bool(verdict.hangs)
        self.last_hang = verdict.hangs
        self.events += verdict.events
        self.features.update(verdict.features)
        self.sometimes.update(verdict.sometimes)
        for kind, times in verdict.faults:
            self.faults[kind] += times
        if verdict.ok:
            return None
        self.failed += 1
        first, *also = verdict.violations
        key = (first.property, first.what)
        known = self.failures.get(key)
        if known is not None:
            known.count += 1
            return None
        failure = self.failures[key] = Failure(
            verdict.seed, first, also=also, digest=verdict.digest
        )
        return failure

    def feature_counts(self) -> dict[str, int]:
        """In how many scenarios each feature occurred, those that never did included."""
        return {name: self.features[name] for name in feature_names()}

    def sometimes_counts(self) -> dict[str, int]:
        """In how many scenarios each rare situation was reached, those that never were included."""
        return {name: self.sometimes[name] for name in SITUATIONS}

    def fault_counts(self) -> dict[str, int]:
        """How often each kind of fault happened, those that never did included."""
        return {kind: self.faults[kind] for kind in KINDS}


def run_campaign(
    seeds: Iterable[int] | None = None,
    given: Given = Given(),  # noqa: B008
    *,
    minutes: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
    on_verdict: Callable[[Verdict, Failure | None, Campaign], object] | None = None,
) -> Campaign:
    """Judge ``seeds`` (from 0 on, if there are none given), for ``minutes`` at most.

    ``on_verdict`` is called with each verdict, and with the failure if it is of a new kind. An
    interrupt, or a request to terminate, ends the campaign and keeps what it has found. For the
    main thread.
    """
    campaign = Campaign()
    started = time.perf_counter()
    verdicts = judge_all(count() if seeds is None else seeds, given, jobs=jobs, device=device)

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    terminated = signal.signal(signal.SIGTERM, interrupt)
    try:
        for verdict in verdicts:
            failure = campaign.add(verdict)
            campaign.seconds = time.perf_counter() - started
            if on_verdict is not None:
                on_verdict(verdict, failure, campaign)
            if minutes is not None and campaign.seconds >= minutes * 60:
                break
    except KeyboardInterrupt:
        campaign.interrupted = True
    finally:
        verdicts.close()
        signal.signal(signal.SIGTERM, terminated)
    campaign.seconds = time.perf_counter() - started
    return campaign
