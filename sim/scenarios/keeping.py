"""Keeps failures as they are found, before anything is printed about them.

A store that cannot be used (a folder that is read-only, a full disk) is told once and does not
end the campaign: its failures are printed all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from squall.model.events.run import NOT_CHECKED, Run
from squall.sim.scenario import Scenario
from squall.sim.scenarios.failure import Failure, expecting
from squall.sim.scenarios.store import Store, StoreError, StorePlace


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


class Keeper:
    """Writes failures into the store of the working directory; ``warn`` gets a line if it cannot.

    A campaign that finds none leaves nothing behind.
    """

    def __init__(self, warn: Callable[[str], object] = _to_stderr) -> None:
        self._warn = warn
        self._store = Store()
        self._broken = False

    def keep(self, scenario: Scenario, *, found_by: str, text: str) -> Failure | None:
        """Write it down; None if that was not possible."""
        if self._broken:
            return None
        try:
            return self._store.keep(scenario, found_by=found_by, text=text)
        except StoreError as error:
            self._broken = True
            self._warn(f"failures are not kept: {error}")
            return None


def kept_failure(scenario: Scenario, what: str) -> Failure | None:
    """The failure that is kept of this scenario, in the store of its file, if ``what`` is one, or in that of the working
    directory."""
    stores = (
        [Store(StorePlace(Path(what).absolute().parent.parent))] if Path(what).is_file() else []
    )
    found = (store.kept(scenario) for store in [*stores, Store()])
    return next((each for each in found if each is not None), None)


def keep_script(scenario: Scenario, run: Run, text: str) -> Failure | None:
    """Write down a run of a script that failed, with a ``text`` that says how; None if it did not, or if it
    was not possible."""
    if run.outcome in ("ok", NOT_CHECKED, "interrupted"):
        return None
    return Keeper().keep(expecting(scenario, run), found_by="run", text=text)
