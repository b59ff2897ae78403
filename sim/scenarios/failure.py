"""One record of a failure: what broke, and the scenario in which it did."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squall.sim.scenario import Expected, Scenario
from squall.sim.scenarios.file import name_of

if TYPE_CHECKING:
    from squall.model.events.run import Run, Violation


#: a line that tells of an error: of which rank, what, and where
_TOLD = re.compile(
    r"(?:rank \d+: )?(?P<message>.*?)(?: at (?P<place>\S+:\d+))?(?:, called from \S+)?"
)


@dataclass(kw_only=True)
class Failure:
    """One kind of thing that broke, and the first scenario that showed it.

    ``scenario`` says what broke and what to expect of a replay. ``violation`` is the first thing
    that did not hold; a failure that was read from the store has only its ``text``. ``also``: what
    else broke. ``found_by``: the command that found it, ``found_at`` when, in seconds since 1970.
    ``known``: of the engine ``torch``, the rules of ``squall diff`` that predict all in which it differs
    from the port; empty if something is not predicted, or nobody asked.
    ``count``: scenarios of the campaign in which it was the first thing to break; of one that is kept, how
    often it was found. ``file``: where the scenario is kept, once it is. ``why``: what decided it, as ``squall why``
    tells it, and ``marks`` the events of its run that this is about, once somebody has asked.

    A scenario that is kept without having failed, to be looked at again, is one without anything
    that broke.
    """

    scenario: Scenario
    violation: Violation | None = None
    text: str = ""
    also: list[Violation] = field(default_factory=list)
    found_by: str = ""
    found_at: float = 0.0
    count: int = 1
    known: tuple[str, ...] = ()
    file: str = ""
    why: str = ""
    marks: dict[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Eight hex digits over what decides the run."""
        return Path(self.file).stem if self.file else name_of(self.scenario)

    @property
    def ran(self) -> str:
        """The script or the test that failed; of a program its seed."""
        script, profile = self.scenario.script, self.scenario.profile
        name = f"seed {self.scenario.seed}" if script is None else Path(script.path).name
        return f"{name} ({profile})" if profile else name

    @property
    def message(self) -> str:
        """What went wrong, in a line."""
        return self._told()[0]

    @property
    def place(self) -> str:
        """``file:line`` of the user's, where it went wrong; "" if that is not known."""
        return self._told()[1]

    def _told(self) -> tuple[str, str]:
        first = self.text.split("\n", 1)[0]
        found = _TOLD.fullmatch(first) if self.scenario.script is not None else None
        if found is None or not first:
            return ": ".join(filter(None, self.key)), ""
        return found["message"], found["place"] or ""

    @property
    def failed(self) -> bool:
        return bool(self.expected.property or self.expected.what)

    @property
    def expected(self) -> Expected:
        """What came of the run."""
        return self.scenario.expected

    @property
    def key(self) -> tuple[str | None, str | None]:
        """What makes two failures the same kind."""
        return self.expected.property, self.expected.what

    @property
    def properties(self) -> tuple[str, ...]:
        """All properties that did not hold, the first of them first."""
        every = [self.violation, *self.also]
        return tuple(dict.fromkeys(each.property for each in every if each is not None))

    @property
    def replay(self) -> str:
        """A command line that shows it again, once it is kept."""
        return shlex.join(["squall", "replay", self.file])

    @property
    def explain(self) -> str:
        """A command line that says what decided it, once it is kept."""
        return shlex.join(["squall", "why", self.file])

    @property
    def timeline(self) -> str:
        """A command line that makes a page of it, once it is kept."""
        return shlex.join(["squall", "timeline", self.file])

    def to_json(self) -> dict[str, Any]:
        """What is known of a failure that is kept, plain values only."""
        scenario, expected = self.scenario, self.expected
        return {
            "name": self.name,
            "found_at": self.found_at,
            "found_by": self.found_by,
            "seed": scenario.seed,
            "profile": scenario.profile,
            "property": expected.property,
            "what": expected.what,
            "text": self.text,
            "ran": self.ran,
            "message": self.message,
            "place": self.place,
            "count": self.count,
            "digest": expected.digest,
            "workers": scenario.workers,
            "operations": scenario.operations,
            "faults": len(scenario.faults),
            "file": self.file,
            "replay": self.replay,
        }


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
