"""``squall properties``: what must hold for every run, and where checks give up."""

from __future__ import annotations

import json as json_module
from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.options import Jobs, Json, seeds_option

RANK = 40
EPILOG = """\
[bold]Examples[/bold]

squall properties

squall properties --excuses --seeds 0:10000 --jobs 2     (how often each is used)
"""


def properties(
    excuses: Annotated[
        bool,
        typer.Option("--excuses", help="List where checks give up, and why, instead."),
    ] = False,
    seeds: Annotated[range | None, seeds_option("none")] = None,
    jobs: Jobs = 1,
    json: Json = False,
) -> None:
    """List what must hold for every run.

    With --excuses, where a check gives up: every reason for that, and with --seeds how often it was
    used in a campaign of these seeds without faults and in one under profile storm.
    """
    from squall.model.checks.registry import PROPERTIES

    if excuses:
        _excuses(seeds, jobs, json)
        return
    if seeds is not None:
        raise BadInput("--seeds", f"{seeds.start}:{seeds.stop}", "expected --excuses with it")
    if json:
        listed = [{"name": p.name, "description": p.description} for p in PROPERTIES]
        typer.echo(json_module.dumps({"properties": listed}))
        return
    _print([(p.name, p.description.replace("``", "")) for p in PROPERTIES])


def _print(rows: list[tuple[str, str]]) -> None:
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(text))
    Console(highlight=False).print(table)


def _excuses(seeds: range | None, jobs: int, json: bool) -> None:
    from squall.model.checks.excuses import EXCUSES
    from squall.sim.search.campaign import run_campaign
    from squall.sim.search.draw import Settings

    used: dict[str, Counter[str]] = {}
    if seeds is not None:
        used["plain"] = run_campaign(seeds, jobs=jobs).excused
        used["storm"] = run_campaign(seeds, Settings("storm"), jobs=jobs).excused
    if json:
        listed = [
            {
                "name": excuse.name,
                "reason": excuse.reason,
                "used": {kind: count[excuse.name] for kind, count in used.items()} or None,
            }
            for excuse in EXCUSES
        ]
        typer.echo(json_module.dumps({"excuses": listed}))
        return
    rows = []
    for excuse in EXCUSES:
        times = ", ".join(f"{count[excuse.name]:,} {kind}" for kind, count in used.items())
        rows.append((excuse.name, f"{excuse.reason}" + (f" (used: {times})" if times else "")))
    _print(rows)
