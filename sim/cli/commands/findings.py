"""``squall findings``: what is wrong in PyTorch itself, and a report of it that can be sent."""

from __future__ import annotations

import difflib
import json as json_module
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.exits import FAILED
from squall.sim.cli.options import Json
from squall.sim.cli.with_tests import part

#: the package that has them
PACKAGE = "squall.properties.findings"

RANK = 65
EPILOG = """\
[bold]Examples[/bold]

squall findings

squall findings issue sparse-then-dense > report.md
"""


def findings(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="issue",
            help="Print a bug report in the form that pytorch/pytorch asks for.",
            parser=parsers.one_of("WHAT", ("issue",)),
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Of which finding.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """List the defects of PyTorch that squall has found, or write a report of one.

    A report has a script of at most 25 lines, which is run for it on the torch that is installed: exit code 1
    if that does not fail. It also has the environment, a patch and a test. Whoever sends it reads it first.

    The findings are in a checkout of squall alone.
    """
    issue = part(PACKAGE, "issue")
    if what is None:
        _list(issue.issues(), json)
        return
    ready = issue.issues()
    if name is None:
        raise BadInput("NAME", "", f"expected one of {', '.join(ready)}")
    chosen = _chosen(ready, name)
    console = Console(stderr=True)
    try:
        with console.status(f"running {chosen.repro.name} on this torch"):
            text = issue.report(chosen)
    except issue.NotShownError as error:
        print(f"squall: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    typer.echo(json_module.dumps({"name": name, "report": text}) if json else text)


def _list(ready: dict[str, Any], json: bool) -> None:
    rows = [
        {
            "name": one.name,
            "kind": one.facts.severity,
            "what": one.title,
            "issue": one.name in ready,
        }
        for one in part(PACKAGE, "finding").findings()
    ]
    if json:
        typer.echo(json_module.dumps({"findings": rows}))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("finding", "kind", "report", "what"):
        table.add_column(head, no_wrap=head != "what")
    for row in rows:
        table.add_row(row["name"], row["kind"], "yes" if row["issue"] else "", row["what"])
    Console(highlight=False).print(table, markup=False)


def _chosen(ready: dict[str, Any], name: str) -> Any:
    if name in ready:
        return ready[name]
    known = [one.name for one in part(PACKAGE, "finding").findings()]
    if name in known:
        problem = f"{name} has no report yet, expected one of {', '.join(ready)}"
        raise BadInput("NAME", name, problem)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "squall findings lists them"
    raise BadInput("NAME", name, f"there is no finding {name!r}; {hint}")
