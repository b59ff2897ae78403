"""What came of a campaign against a planted bug."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from squall.model.checks.registry import PROPERTIES
from squall.sim.scenarios.failure import Failure
from squall.sim.search.mutants.mutant import Mutant

#: what stands for a property where the process itself showed the bug
HANG, CRASH = "hang", "crash"


def size_of(failure: Failure) -> tuple[int, int]:
    """Operations and workers of the program that failed."""
    return failure.scenario.operations or 0, failure.scenario.workers or 0


def in_words(failure: Failure) -> str:
    """Which scenario failed, and how large it is."""
    scenario, (operations, workers) = failure.scenario, size_of(failure)
    name = scenario.note or f"{scenario.profile or ''} seed {scenario.seed}".lstrip()
    return f"{name}: {operations} ops, {workers} workers"


@dataclass
class Result:
    """What a campaign against one mutant came to."""

    mutant: Mutant
    #: scenarios until the first failure, it included, or until time was up
    scenarios: int = 0
    #: of one core, in all of these
    seconds: float = 0.0
    first: Failure | None = None
    smallest: Failure | None = None
    #: all properties that any failing scenario broke
    properties: dict[str, None] = field(default_factory=dict)
    #: why there is no verdict: the process could not do its work
    problem: str | None = None

    @property
    def killed(self) -> bool:
        return self.first is not None

    @property
    def by(self) -> str | None:
        """The property that failed first."""
        return self.first.properties[0] if self.first is not None else None

    @property
    def replay(self) -> str | None:
        """A command line that shows the smallest failing scenario."""
        if self.smallest is None:
            return None
        scenario = self.smallest.scenario
        if scenario.note:
            return f"squall replay {scenario.note} --mutant {self.mutant.name}"
        seed = scenario.seed
        faults = f" --faults {scenario.profile}" if scenario.profile else ""
        return f"squall mutants {self.mutant.name} --seeds {seed}:{seed + 1}{faults}"

    def add(self, found: Failure, seconds: float) -> None:
        """Count a failing scenario, ``seconds`` of one core after the campaign began."""
        self.properties.update(dict.fromkeys(found.properties))
        if self.first is None or self.smallest is None:
            self.first = self.smallest = found
            self.seconds = seconds
        elif size_of(found) < size_of(self.smallest):
            self.smallest = found

    def to_json(self) -> dict[str, Any]:
        mutant, smallest = self.mutant, self.smallest
        return {
            "name": mutant.name,
            "killed": self.killed,
            "by": self.by,
            "what": self.first.text if self.first is not None else None,
            "properties": list(self.properties),
            "scenarios": self.scenarios,
            "seconds": round(self.seconds, 3),
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
        "corpus": scenario.note or None,
        "faults": scenario.profile,
        "ops": operations,
        "workers": workers,
    }


def median_seconds(results: Iterable[Result]) -> float | None:
    """Of those that were killed."""
    seconds = [result.seconds for result in results if result.killed]
    return statistics.median(seconds) if seconds else None


def only_killers(results: Iterable[Result]) -> dict[str, list[str]]:
    """By property, the mutants that it alone noticed."""
    found: dict[str, list[str]] = {property.name: [] for property in PROPERTIES}
    for result in results:
        if len(result.properties) == 1:
            found.setdefault(next(iter(result.properties)), []).append(result.mutant.name)
    return found
