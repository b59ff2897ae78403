"""Seeds on both engines: they differ in nothing but what the rules of ``squall diff`` predict."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar

from squall.model.events.run import Violation
from squall.sim.campaigns.parts.part import Alive, Part
from squall.sim.campaigns.row import Row, failed_row
from squall.sim.diff.compare import Comparison, compare_engines
from squall.sim.diff.difference import Difference
from squall.sim.diff.facts import COUNTS
from squall.sim.names import EngineName
from squall.sim.scenario import Scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw
from squall.sim.search.judge import TIMEOUT_S
from squall.sim.world import interrupts
from squall.sim.world.real_time import TooLongError, time_limit

#: the property of what no rule predicts, and of what could not be compared
DIFFERENCE = "diff"


@dataclass(frozen=True)
class Diff(Part):
    """Seeds as they are drawn for the engine ``torch``, run there, on the port and in one process."""

    engine: EngineName = "torch"

    kind: ClassVar[str] = "diff"

    @property
    def engines(self) -> tuple[EngineName, ...]:
        return ("port", "torch")

    @property
    def _how(self) -> str:
        return "port and torch"

    def rows(self, numbers: range, alive: Alive, *, again: bool = False) -> Iterator[Row]:
        with campaign_settings():
            for number in numbers:
                yield self._row(number)

    def _row(self, number: int) -> Row:
        try:
            with time_limit(TIMEOUT_S, elsewhere=True):
                comparison = compare_engines(draw(number, self.settings))
        except TooLongError:
            seen = f"it was still running after {TIMEOUT_S:g} s of real time"
        except (Exception, SystemExit) as error:  # so broken that nothing can be compared
            seen = f"{type(error).__name__}: {error}"
        else:
            interrupts.check()
            return _row_of(number, comparison)
        interrupts.check()
        violation = Violation(DIFFERENCE, "the runs could not be compared", "two runs", seen)
        return failed_row(number, violation)

    def again(self, row: Row) -> str:
        return shlex.join(["squall", "diff", str(row.seed)])


def _row_of(number: int, comparison: Comparison) -> Row:
    """The differences count by their places and rules: what a value is may be a text with an
    address of a process."""
    told = [comparison.digest, *((each.where, each.rule) for each in comparison.differences)]
    digest = blake2b(repr(told).encode(), digest_size=16).hexdigest()
    if not comparison.unknown:
        return Row(number, digest=digest)
    first = comparison.unknown[0]
    what = _what(first)
    text = f"{DIFFERENCE}: {what}: {first}"
    return Row(number, DIFFERENCE, what, digest, text=text, place=_place(first))


def differences(scenario: Scenario) -> list[tuple[Violation, str]]:
    """What no rule predicts of a scenario on both engines, each with its place."""
    return [
        (Violation(DIFFERENCE, _what(each), each.port, each.torch), _place(each))
        for each in compare_engines(scenario).unknown
    ]


def _what(difference: Difference) -> str:
    return f"another {difference.kind}"


def _place(difference: Difference) -> str:
    """What was counted differently; "" where a value differs."""
    kind, *rest = difference.place
    if kind in COUNTS:
        return "FORWARD_AUTOGRAD_RESP" if kind == "wrapped" else str(rest[0])
    return str(rest[1]) if kind == "left" else ""
