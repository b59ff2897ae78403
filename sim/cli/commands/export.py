"""``squall export``: a scenario as a script for stock PyTorch."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.options import (
    DeviceOfScenario,
    EngineOfScenario,
    FaultsOption,
    Mutant,
    ScenarioArgument,
    output_option,
)
from squall.sim.cli.scenario import Changes, find_scenario

if TYPE_CHECKING:
    from squall.sim.scenario import Scenario

STANDARD_OUTPUT = Path("-")

RANK = 75
EPILOG = """\
[bold]Examples[/bold]

squall export 204 -o out.py                 (then: python out.py)

squall export 204 --faults rough            (to standard output)

squall export .squall/scenarios/0a1b2c3d.json -o out.py --force
"""


def export(
    scenario: ScenarioArgument,
    output: Annotated[
        Path, output_option("Where to write it; - is standard output.")
    ] = STANDARD_OUTPUT,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    faults: FaultsOption = None,
    mutant: Mutant = None,
    engine: EngineOfScenario = None,
    device: DeviceOfScenario = None,
) -> None:
    """Write a scenario as an ordinary PyTorch script.

    It runs on stock PyTorch with a process for each worker, and under squall run. Faults are
    sleeps and settings of FAULTY_TENSORPIPE where stock PyTorch has such faults, and comments
    where it has not.
    """
    changes = Changes(faults=faults, mutant=mutant, engine=engine, device=device)
    found = find_scenario(scenario, changes, scripts=True)  # it is shown, and does not run
    path = None if output == STANDARD_OUTPUT else output
    if path is not None and path.exists() and not force:
        problem = f"there is a file {str(path)!r} already; --force overwrites it"
        raise BadInput("--output", str(path), problem)
    meant = found()
    if meant.script is not None and meant.script.others:
        problem = (
            f"{scenario!r} has {meant.workers} command lines, of which no script for stock PyTorch can "
            "be made, expected a scenario of one (squall replay runs it)"
        )
        raise BadInput("SEED|FILE", scenario, problem)
    from squall.sim.scenarios.store import write_synced

    origin = shlex.join(["squall", "replay", scenario, *changes.words()])
    text = _text(meant, scenario, origin, "FILE" if path is None else shlex.quote(str(path)))
    if path is None:
        sys.stdout.write(text)
        return
    try:
        write_synced(path, text)
    except OSError as error:
        problem = f"cannot write {str(path)!r}: {error.strerror}"
        raise BadInput("--output", str(path), problem) from None


def _text(meant: Scenario, named: str, origin: str, file: str) -> str:
    from squall.sim.export.scenario import export as exported
    from squall.sim.library.exported import NotAScriptError, function_script, is_function

    if not is_function(meant):
        return exported(meant, origin, file)
    try:
        return function_script(meant, origin, file)
    except NotAScriptError as error:
        problem = f"no script can be made of {named!r}: {error} (squall replay runs it)"
        raise BadInput("SEED|FILE", named, problem) from None
