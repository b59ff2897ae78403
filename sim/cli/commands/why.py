"""``squall why``: what decided a failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.engine import ready
from squall.sim.cli.exits import FAILED, INTERRUPTED, exit_code
from squall.sim.cli.options import (
    AllowScripts,
    EngineOfScenario,
    FaultsOption,
    Json,
    LatencyOfScript,
    Mutant,
    Plotly,
    SeedOfScript,
    Workers,
    output_option,
    seconds_option,
)
from squall.sim.cli.scenario import Changes, read_scenario
from squall.sim.cli.script import ScriptRun, is_script, refuse_for_scripts
from squall.sim.names import PlotlyFrom
from squall.sim.world.latency import DEFAULT_LATENCY

if TYPE_CHECKING:
    from squall.sim.library.why import Cause
    from squall.sim.scenario import Scenario

#: seeds of a script that are tried where none is given
SEEDS = 100

RANK = 85
CONTEXT_SETTINGS = {"ignore_unknown_options": True}
EPILOG = """\
[bold]Examples[/bold]

squall why .squall/scenarios/0a1b2c3d.json

squall why train.py --workers 3          (up to the first of 100 seeds that fails)

squall why train.py --workers 3 --seed 4 --faults rough

squall why train.py --workers 3 -o why.html

squall why 204 --mutant dependency-not-counted --json
"""


def why(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|SEED|SCRIPT",
            help="A scenario file, the name of a stored failure, a seed of squall fuzz, or a Python script.",
            show_default=False,
        ),
    ],
    args: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="What a script gets in sys.argv.")
    ] = None,
    workers: Workers = None,
    seed: SeedOfScript = None,
    latency: LatencyOfScript = None,
    faults: FaultsOption = None,
    engine: EngineOfScenario = None,
    mutant: Mutant = None,
    seconds: Annotated[float, seconds_option("Seconds of a processor to spend at most.")] = 20,
    output: Annotated[
        Path | None, output_option("A page with a picture of both runs, aligned where they part.")
    ] = None,
    plotly: Plotly = None,
    allow_scripts: AllowScripts = False,
    json: Json = False,
) -> None:
    """Say what decided that a run fails: which two steps came in the wrong order, or which fault it was.

    Runs are tried that go on otherwise from some point on; what the last one that passes does differently is
    told with the functions and lines of the script. --workers, --seed and --latency are for scripts. Ctrl-C tells
    what is known. Exit code 1 as the run fails; 0 if none of the seeds of a script does, 4 if nothing was
    checked in any.
    """
    asked = None
    if plotly is not None and output is None:
        raise BadInput(
            "--plotly", plotly, "is for a page, and none is asked for: add --output FILE"
        )
    page = None if output is None else Page(output, plotly or "inline")
    if is_script(what):
        if mutant is not None:
            raise BadInput(
                "--mutant", mutant, f"is for a seed or a scenario file, and {what!r} is a script"
            )
        asked = ScriptRun(
            script=parsers.script_or_ranks(what),
            args=tuple(args or ()),
            workers=workers,
            seed=seed or 0,
            latency=latency or DEFAULT_LATENCY,
            engine=engine or "port",
            faults=faults,
        )
        ready(asked.engine)
        if seed is None:
            _search(asked, page, drawn=latency is None, seconds=seconds, as_json=json)
        scenario = asked.scenario()
    else:
        given = {"--workers": workers, "--seed": seed, "--latency": latency}
        refuse_for_scripts(what, given, args)
        changes = Changes(faults=faults, mutant=mutant, engine=engine)
        scenario = read_scenario(what, changes, "FILE|SEED|SCRIPT", scripts=allow_scripts)
        ready(scenario.engine)
    _explain(scenario, what, page, seconds, as_json=json)


class Page(NamedTuple):
    """The page that is asked for."""

    path: Path
    plotly: PlotlyFrom

    def write(self, why: Cause) -> None:
        """Raises :class:`BadInput`."""
        try:
            why.timeline(plotly=self.plotly).save(self.path)
        except OSError as error:
            problem = f"cannot write {str(self.path)!r}: {error.strerror or error}"
            raise BadInput("--output", str(self.path), problem) from None


def _search(
    asked: ScriptRun, page: Page | None, *, drawn: bool, seconds: float, as_json: bool
) -> None:
    """Look for a seed that fails, and say why. Raises :class:`typer.Exit`."""
    from squall.sim.cli.reports.fuzzed_script import nothing_found, searched
    from squall.sim.cli.reports.why import no_why_json, why_json

    ran, notes = searched(asked, range(SEEDS), shrink_s=seconds, drawn=drawn)
    found = ran.finding
    if found is None or found.why is None:
        typer.echo(no_why_json(ran) if as_json else nothing_found(asked, ran, notes))
        raise typer.Exit(exit_code(good=found is None, unchecked=ran.unchecked))
    if page is not None:
        page.write(found.why)
    if as_json:
        typer.echo(why_json(found.why, found.small.scenario))
    else:
        typer.echo("\n".join(found.lines()))
        _print_page(page)
    raise typer.Exit(INTERRUPTED if found.interrupted else FAILED)


def _print_page(page: Page | None) -> None:
    if page is not None:
        typer.echo(f"picture:   {page.path} (open it in a browser)")


def _explain(
    scenario: Scenario, what: str, page: Page | None, seconds: float, *, as_json: bool
) -> None:
    """Say why one scenario fails. Raises :class:`typer.Exit`."""
    from squall.sim.cli.reports.why import NotFailingError, looking, print_why, why_json
    from squall.sim.library.why import cause_of, keep_cause
    from squall.sim.scenarios.keeping import kept_failure

    with looking() as look:
        try:
            found = cause_of(scenario, seconds=seconds, on_run=look)
        except NotFailingError as error:
            raise BadInput("FILE|SEED|SCRIPT", what, f"{error}; expected one that fails") from None
    kept = kept_failure(scenario, what)
    if kept is not None and not kept.why:
        keep_cause(kept, found)
    if page is not None:
        page.write(found)
    if as_json:
        typer.echo(why_json(found, scenario))
    else:
        print_why(found, scenario)
        _print_page(page)
    raise typer.Exit(INTERRUPTED if found.interrupted else FAILED)
