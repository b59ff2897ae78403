"""What came of a campaign against a planted bug."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from squall.model.checks.registry import PROPERTIES
from squall.sim.scenarios.failure import Failure
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.schedules import names_a_seed

#: what stands for a property where the process itself showed the bug
HANG, CRASH = "hang", "crash"


def size_of(failure: Failure) -> tuple[int, int]:
    """Operations and workers of the program that failed."""
    return failure.scenario.operations or 0, failure.scenario.workers or 0


def in_words(failure: Failure) -> str:
    """Which scenario failed, and how large it is."""
    scenario, (operations, workers) = failure.scenario, size_of(failure)
    name = scenario.note
    if names_a_seed(name):
        name = f"{scenario.profile or ''} seed {name or scenario.seed}".lstrip()
    return f"{name}: {operations} ops, {workers} workers"


@dataclass
class TrialPart:
    """What one part of a trial came to: the stored scenarios, or the campaign."""

    #: scenarios until the first failure, it included, or until time was up
    scenarios: int = 0
    #: of one core, in all of these
    seconds: float = 0.0
    first: Failure | None = None
    smallest: Failure | None = None
    #: all properties that any failing scenario broke
    properties: dict[str, None] = field(default_factory=dict)

    @property
    def killed(self) -> bool:
        return self.first is not None

    @property
    def by(self) -> str | None:
        """The property that failed first."""
        return self.first.properties[0] if self.first is not None else None

    def add(self, found: Failure, seconds: float) -> None:
        """Count a failing scenario, ``seconds`` of one core after the part began."""
        self.properties.update(dict.fromkeys(found.properties))
        if self.first is None or self.smallest is None:
            self.first = self.smallest = found
            self.seconds = seconds
        elif size_of(found) < size_of(self.smallest):
            self.smallest = found

    def to_json(self) -> dict[str, Any]:
        return {
            "killed": self.killed,
            "by": self.by,
            "scenarios": self.scenarios,
            "seconds": round(self.seconds, 3),
        }


@dataclass
class Result:
    """What came of one mutant: in the campaign, and before it with the stored scenarios, if they
    were tried."""

    mutant: Mutant
    campaign: TrialPart = field(default_factory=TrialPart)
    corpus: TrialPart | None = None
    #: why there is no verdict: the process could not do its work
    problem: str | None = None

    @property
    def parts(self) -> list[TrialPart]:
        """The campaign first."""
        return [self.campaign] if self.corpus is None else [self.campaign, self.corpus]

    @property
    def killed(self) -> bool:
        """Whether anything failed."""
        return any(part.killed for part in self.parts)

    @property
    def first(self) -> Failure | None:
        """The campaign's first failure; that of the corpus, if it has none."""
        return next((part.first for part in self.parts if part.killed), None)

    @property
    def smallest(self) -> Failure | None:
        """The smallest failure of the same part."""
        return next((part.smallest for part in self.parts if part.killed), None)

    @property
    def properties(self) -> dict[str, None]:
        """All properties that any failing scenario broke."""
        return {name: None for part in self.parts for name in part.properties}

    @property
    def by(self) -> str | None:
        """The property that failed first."""
        return next((part.by for part in self.parts if part.killed), None)

    @property
    def replay(self) -> str | None:
        """A command line that shows the smallest failing scenario."""
        if self.smallest is None:
            return None
        scenario = self.smallest.scenario
        seed = scenario.seed
        faults = f" --faults {scenario.profile}" if scenario.profile else ""
        if scenario.note:
            if not names_a_seed(scenario.note):
                faults = ""
            return f"squall replay {scenario.note}{faults} --mutant {self.mutant.name}"
        return f"squall mutants {self.mutant.name} --seeds {seed}:{seed + 1}{faults}"

    def to_json(self) -> dict[str, Any]:
        mutant, smallest, first = self.mutant, self.smallest, self.first
        return {
            "name": mutant.name,
            "killed": self.killed,
            "by": self.by,
            "what": first.text if first is not None else None,
            "properties": list(self.properties),
            "scenarios": self.campaign.scenarios,
            "seconds": round(self.campaign.seconds, 3),
            "campaign": self.campaign.to_json(),
            "corpus": None if self.corpus is None else self.corpus.to_json(),
            "expected": mutant.expected,
            "origin": mutant.origin,
            "needs": mutant.needs,
            "smallest": None if smallest is None else _size_json(smallest),
            "replay": self.replay,
            "problem": self.problem,
        }


def _size_json(found: Failure) -> dict[str, Any]:
    scenario, (operations, workers) = found.scenario, size_of(found)
    return {
        "seed": scenario.seed,
        "corpus": None if names_a_seed(scenario.note) else scenario.note,
        "faults": scenario.profile,
        "ops": operations,
        "workers": workers,
    }


def median_seconds(results: Iterable[Result]) -> float | None:
    """Of those that the campaign killed."""
    seconds = [result.campaign.seconds for result in results if result.campaign.killed]
    return statistics.median(seconds) if seconds else None


def only_killers(results: Iterable[Result]) -> dict[str, list[str]]:
    """By property, the mutants that it alone noticed."""
    found: dict[str, list[str]] = {property.name: [] for property in PROPERTIES}
    for result in results:
        if len(result.properties) == 1:
            found.setdefault(next(iter(result.properties)), []).append(result.mutant.name)
    return found
