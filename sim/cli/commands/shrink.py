"""``squall shrink``: a failing scenario made small."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import SpinnerColumn, TimeElapsedColumn

from squall.model.events.names import number_of
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.exits import INTERRUPTED
from squall.sim.cli.options import (
    AllowScripts,
    FaultsOption,
    Json,
    Mutant,
    ScenarioArgument,
    output_option,
    seconds_option,
)
from squall.sim.cli.scenario import Changes, read_scenario

if TYPE_CHECKING:
    from squall.sim.search.shrink.shrinker import Shrinker
    from squall.sim.search.why.told import Why

RANK = 80
EPILOG = """\
[bold]Examples[/bold]

squall shrink .squall/scenarios/0a1b2c3d.json -o small.json

squall shrink 204 --faults rough --seconds 300

squall shrink 5 --mutant dependency-not-counted --json
"""


def shrink(
    scenario: ScenarioArgument,
    output: Annotated[
        Path | None,
        output_option("Where to write the small scenario (default: with the stored failures)."),
    ] = None,
    faults: FaultsOption = None,
    mutant: Mutant = None,
    seconds: Annotated[float, seconds_option("Real seconds to spend at most.")] = 120,
    allow_scripts: AllowScripts = False,
    json: Json = False,
) -> None:
    """Make a failing scenario small: program, faults and order together, the same thing breaking.

    Fewest deviations from a plain run without faults first, then size, then values; then of a script
    what decided that it fails, as squall why tells. Ctrl-C keeps the best so far.
    """
    saved = read_scenario(scenario, Changes(faults=faults, mutant=mutant), scripts=allow_scripts)
    from squall.sim.scenarios.file import ScenarioError
    from squall.sim.search.replay_with_mutant import known_mutant

    try:
        known_mutant(saved.expected.mutant)
    except ScenarioError as error:
        raise BadInput("SCENARIO", scenario, str(error)) from None
    from squall.sim.cli.reports.shrink import print_shrunk, shrink_json
    from squall.sim.search.shrink.shrinker import NotFailingError, Shrinker

    with _Display() as display:
        shrinker = Shrinker(saved, seconds=seconds, on_progress=display.show)
        try:
            shrinker.run()
        except NotFailingError as error:
            raise BadInput("SCENARIO", scenario, f"{error}; expected one that fails") from None
    if shrinker.target is None:  # interrupted before it was seen to fail
        raise KeyboardInterrupt
    file = _write(shrinker, output)
    of_script = shrinker.best.script is not None
    why = _why(shrinker, seconds) if of_script and not shrinker.interrupted else None
    if json:
        typer.echo(shrink_json(shrinker, file, why))
    else:
        print_shrunk(shrinker, file, Console(highlight=False), why)
    raise typer.Exit(INTERRUPTED if shrinker.interrupted else 0)


def _why(shrinker: Shrinker, seconds: float) -> Why | None:
    """What decided that the small scenario fails; None where nothing is
    wrong with it but a property that a fault excuses."""
    from squall.sim.cli.reports.why import NotFailingError, looking
    from squall.sim.library.why import WHY_S, cause_of

    with looking() as look:
        try:
            return cause_of(shrinker.best, seconds=min(seconds, WHY_S), on_run=look)
        except NotFailingError:
            return None


def _write(shrinker: Shrinker, output: Path | None) -> str:
    """Write the result down; where."""
    from squall.sim.scenarios.own import text_to_write
    from squall.sim.scenarios.store import Store, StoreError, write_synced

    if output is not None:
        try:
            write_synced(output, text_to_write(shrinker.best))
        except OSError as error:
            problem = f"cannot write {str(output)!r}: {error.strerror}"
            raise BadInput("--output", str(output), problem) from None
        return str(output)
    try:
        return Store().keep(shrinker.best, found_by="shrink", text=str(shrinker.target)).file
    except StoreError as error:
        raise BadInput("--output", "", f"{error}; expected a file to write to") from None


class _Display(Bar):
    """What the shrinker is at."""

    def __init__(self) -> None:
        said = "{task.fields[best]}", "{task.fields[tried]}"
        super().__init__(SpinnerColumn(), "shrink", *said, TimeElapsedColumn(), best="", tried="")

    def show(self, shrinker: Shrinker) -> None:
        if not self.is_due:
            return
        from squall.sim.search.shrink.cost import extent

        self.say(best=str(extent(shrinker.best)), tried=number_of(shrinker.tried, "run"))
