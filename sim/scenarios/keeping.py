"""Keeps failures as they are found, before anybody is told of them.

A store that cannot be used (a folder that is read-only, a full disk) is told once and does not
end the campaign: its failures are printed all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.scenarios.store import Kept, Store, StoreError

if TYPE_CHECKING:
    from squall.sim.scenarios.file import SavedScenario
    from squall.sim.scripts.report import Report
    from squall.sim.scripts.run import ScriptScenario
    from squall.sim.search.campaign import Failure


class Keeper:
    """Writes failures into the store of the working directory; ``warn`` gets a line if it cannot.

    A campaign that finds none leaves nothing behind.
    """

    def __init__(self, warn: Callable[[str], object]) -> None:
        self._warn = warn
        self._store = Store()
        self._broken = False

    def keep(self, saved: SavedScenario, *, found_by: str, text: str) -> Kept | None:
        """Write it down; None if that was not possible."""
        if self._broken:
            return None
        try:
            return self._store.keep(saved, found_by=found_by, text=text)
        except StoreError as error:
            self._broken = True
            self._warn(f"failures are not kept: {error}")
            return None


def failed_scenario(
    failure: Failure,
    *,
    profile: str | None = None,
    plan: Plan = NO_FAULTS,
    device: str = "cpu",
    engine: str = "port",
) -> SavedScenario:
    """The scenario of a campaign's failure, with what is expected of a replay."""
    from squall.sim.scenarios.file import Expected
    from squall.sim.scenarios.replay import saved_scenario, seed_scenario

    saved = saved_scenario(seed_scenario(failure.seed, profile, plan), device=device, engine=engine)
    first = failure.violation
    expected = Expected(
        digest=failure.digest or None,
        outcome="failed",
        property=first.property,
        what=first.what,
    )
    return replace(saved, expected=expected)


def keep_script(scenario: ScriptScenario, report: Report) -> Kept | None:
    """Write down a run of a script that failed; None if it did not, or if it was not possible."""
    if report.ok or report.outcome == "interrupted":
        return None
    from squall.sim.scenarios.file import Expected
    from squall.sim.scenarios.replay import report_violations, saved_script

    first = next(report_violations(report), None)
    expected = Expected(
        digest=report.digest,
        outcome=report.outcome,
        property=None if first is None else first.property,
        what=None if first is None else first.what,
    )
    try:
        saved = replace(saved_script(scenario), expected=expected)
    except (OSError, UnicodeDecodeError):  # the script is gone, or is in another encoding
        return None
    keeper = Keeper(lambda text: print(text, file=sys.stderr))
    return keeper.keep(saved, found_by="run", text=str(first or ""))
