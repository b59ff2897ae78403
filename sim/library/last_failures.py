"""The last failure of each test, so that the next run of the tests begins with it."""

from __future__ import annotations

import contextlib
from hashlib import blake2b
from pathlib import Path

from squall.sim.scenario import Scenario, Script
from squall.sim.scenarios.own import read_scenario_file, text_to_write
from squall.sim.scenarios.store import default_place, write_synced


def file_of(script: Script) -> Path:
    """Where the failure of the test that runs this script is remembered."""
    name = blake2b(Path(script.path).name.encode(), digest_size=8).hexdigest()
    return default_place().folder / "tests" / f"{name}.json"


def remember(scenario: Scenario) -> None:
    """A folder that cannot be written to costs the memory alone."""
    assert scenario.script is not None
    file = file_of(scenario.script)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_synced(file, text_to_write(scenario))


def remembered(script: Script) -> Scenario | None:
    """The failure of the test, if there was one; None also for a file that cannot be read."""
    try:
        return read_scenario_file(file_of(script)).scenario
    except (OSError, ValueError):
        return None


def forget(script: Script) -> None:
    """It does not fail any more."""
    with contextlib.suppress(OSError):
        file_of(script).unlink(missing_ok=True)
