"""``squall bisect``: which commit brought a failure."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.exits import UNCHECKED
from squall.sim.cli.options import AllowScripts, FaultsOption, Json, Mutant, seconds_option
from squall.sim.cli.panels import print_panel, summary_table, verdict
from squall.sim.cli.scenario import Changes, find_scenario

if TYPE_CHECKING:
    from squall.sim.campaigns.bisect import Bisection, TriedCommit
    from squall.sim.scenario import Scenario

RANK = 85
EPILOG = """\
[bold]Examples[/bold]

squall bisect 0a1b2c3d --good v1.2           (a stored failure by its name)

squall bisect .squall/scenarios/0a1b2c3d.json --good 1f2e3d --bad HEAD~3 --json
"""


def bisect(
    failure: Annotated[
        str,
        typer.Argument(
            metavar="FAILURE",
            help="The name of a stored failure, a scenario file that says what to expect, or a seed.",
            show_default=False,
        ),
    ],
    good: Annotated[
        str,
        typer.Option("--good", metavar="COMMIT", help="A commit that does not show it."),
    ],
    bad: Annotated[
        str, typer.Option("--bad", metavar="COMMIT", help="A later commit that shows it.")
    ] = "HEAD",
    repository: Annotated[
        Path | None,
        typer.Option(
            "--repository",
            metavar="DIR",
            help="A checkout of squall (default: the one that this squall runs from).",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    faults: FaultsOption = None,
    mutant: Mutant = None,
    seconds: Annotated[float, seconds_option("Real seconds that one replay may take.")] = 300,
    allow_scripts: AllowScripts = False,
    json: Json = False,
) -> None:
    """Find the commit that brought a failure, by replays of its scenario on commits of squall.

    A commit that cannot replay the scenario, or on which something else breaks, is skipped. All
    is done in a temporary clone. Exit code 4 if skipped commits leave more than one that may be it.
    """
    changes = Changes(faults=faults, mutant=mutant)
    found_scenario = find_scenario(failure, changes, "FAILURE", scripts=allow_scripts)
    from squall.real.own_files import PACKAGE
    from squall.sim.campaigns.bisect import BisectError, commits
    from squall.sim.campaigns.bisect import bisect as search

    checkout = repository or PACKAGE.parent
    try:
        commits(checkout, good=good, bad=bad)
    except BisectError as error:
        raise BadInput(error.field, error.value, str(error)) from None
    scenario = _failing(failure, found_scenario())
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    def told(step: TriedCommit) -> None:
        console.print(f"{step.answer:<4} {step.commit} ({step.why})", markup=False)

    try:
        found = search(
            scenario, good=good, bad=bad, repository=checkout, seconds=seconds, on_step=told
        )
    except BisectError as error:
        raise BadInput(error.field, error.value, str(error)) from None
    if json:
        typer.echo(json_module.dumps(_told(found), allow_nan=False))
    else:
        _print(found, Console(highlight=False))
    raise typer.Exit(0 if found.first is not None else UNCHECKED)


def _failing(text: str, scenario: Scenario) -> Scenario:
    """The scenario with what is to be looked for. Raises BadInput if nothing breaks in it."""
    from squall.sim.scenarios.failure import expecting
    from squall.sim.search.replay_with_mutant import again

    expected = scenario.expected
    if expected.property is None and expected.outcome in (None, "ok", "not checked"):
        run = again(scenario)
        scenario = expecting(scenario, run)
        if run.outcome in ("ok", "not checked"):
            problem = f"nothing breaks in {text!r}, expected a scenario that fails"
            raise BadInput("FAILURE", text, problem)
    return scenario


def _told(found: Bisection) -> dict[str, object]:
    first = found.first
    return {
        "outcome": "found" if first is not None else "not decided",
        "first": None if first is None else first.to_json(),
        "candidates": [each.to_json() for each in found.candidates],
        "tried": len(found.steps),
        "steps": [each.to_json() for each in found.steps],
    }


def _print(found: Bisection, console: Console) -> None:
    table = summary_table()
    if found.first is not None:
        table.add_row("brought by", verdict(str(found.first), good=True))
    else:
        table.add_row(
            "not decided", Text("it is one of these; others were skipped", style="yellow")
        )
        for each in found.candidates:
            table.add_row("", str(each))
    table.add_row("tried", f"{len(found.steps):,} commits")
    print_panel(console, table, "squall bisect", good=found.first is not None)
