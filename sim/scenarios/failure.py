"""One record of a failure: what broke, and the scenario in which it did."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from squall.model.events.run import Run, Violation
from squall.sim.scenario import Expected, Scenario


@dataclass
class Failure:
    """One kind of thing that broke, and the first scenario that showed it.

    ``scenario`` says what to expect of a replay. ``found_by``: the command that found it.
    """

    scenario: Scenario
    violation: Violation
    found_by: str = "fuzz"
    #: scenarios in which it was the first thing to break
    count: int = 1
    #: everything else that broke in the first one
    also: list[Violation] = field(default_factory=list)
    #: where its scenario is kept, once it is
    file: str | None = None

    @property
    def seed(self) -> int:
        return self.scenario.seed

    @property
    def key(self) -> tuple[str, str]:
        """What makes two failures the same kind."""
        return self.violation.property, self.violation.what


def expecting(scenario: Scenario, run: Run) -> Scenario:
    """The scenario, with what came of this run as what is to be expected of the next."""
    first = run.violations[0] if run.violations else None
    return with_expectation(scenario, first, outcome=run.outcome, digest=run.digest or None)


def with_expectation(
    scenario: Scenario, violation: Violation | None, *, outcome: str, digest: str | None
) -> Scenario:
    """The scenario, with what is to be expected of a replay."""
    expected = Expected(
        digest=digest,
        outcome=outcome,
        property=None if violation is None else violation.property,
        what=None if violation is None else violation.what,
        mutant=scenario.expected.mutant,
    )
    return replace(scenario, expected=expected)
