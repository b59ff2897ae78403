"""What came of a campaign against a planted bug."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from squall.model.checks.registry import PROPERTIES
from squall.sim.search.judge import Given, scenario_of
from squall.sim.search.mutants.mutant import Mutant

#: what stands for a property where the process itself showed the bug
HANG, CRASH = "hang", "crash"


class Found(NamedTuple):
    """A scenario that fails: by what, and how large its program is. ``profile``: of its faults,
    "" if it has none."""

    seed: int
    profile: str
    properties: tuple[str, ...]
    what: str
    ops: int
    workers: int

    @classmethod
    def of(cls, profile: str, seed: int, properties: tuple[str, ...], what: str) -> Found:
        program = scenario_of(seed, Given(profile=profile)).program
        ops = sum(len(step.ops) for _, _, step in program.steps)
        return cls(seed, profile, properties, what[:300], ops, program.workers)


@dataclass
class Result:
    """What a campaign against one mutant came to."""

    mutant: Mutant
    #: scenarios until the first failure, it included, or until time was up
    scenarios: int = 0
    #: of one core, in all of these
    seconds: float = 0.0
    first: Found | None = None
    smallest: Found | None = None
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
        seed, profile = self.smallest.seed, self.smallest.profile
        faults = f" --faults {profile}" if profile else ""
        return f"squall mutants {self.mutant.name} --seeds {seed}:{seed + 1}{faults}"

    def add(self, found: Found, seconds: float) -> None:
        """Count a failing scenario, ``seconds`` of one core after the campaign began."""
        self.properties.update(dict.fromkeys(found.properties))
        if self.first is None or self.smallest is None:
            self.first = self.smallest = found
            self.seconds = seconds
        elif (found.ops, found.workers) < (self.smallest.ops, self.smallest.workers):
            self.smallest = found

    def to_json(self) -> dict[str, Any]:
        mutant, smallest = self.mutant, self.smallest
        return {
            "name": mutant.name,
            "killed": self.killed,
            "by": self.by,
            "what": self.first.what if self.first is not None else None,
            "properties": list(self.properties),
            "scenarios": self.scenarios,
            "seconds": round(self.seconds, 3),
            "expected": mutant.expected,
            "origin": mutant.origin,
            "needs": mutant.needs,
            "smallest": None
            if smallest is None
            else {
                "seed": smallest.seed,
                "faults": smallest.profile or None,
                "ops": smallest.ops,
                "workers": smallest.workers,
            },
            "replay": self.replay,
            "problem": self.problem,
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
