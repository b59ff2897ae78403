"""``squall properties``: what must hold for every run, and where checks give up."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.exits import INTERRUPTED, exit_code
from squall.sim.cli.options import Jobs, Json, file_option, seeds_option

RANK = 40
EPILOG = """\
[bold]Examples[/bold]

squall properties

squall properties --excuses --seeds 0:10000 --jobs 2     (how often each is used)

squall properties --excuses --seeds 0:10000 --jobs 2 --page excuses.md
"""


def properties(
    excuses: Annotated[
        bool,
        typer.Option("--excuses", help="List where checks give up, and why, instead."),
    ] = False,
    seeds: Annotated[range | None, seeds_option("none")] = None,
    jobs: Jobs = 1,
    page: Annotated[
        Path | None,
        file_option("--page", "Write the counts there, as a part of a page in Markdown."),
    ] = None,
    json: Json = False,
) -> None:
    """List what must hold for every run.

    With --excuses, where a check gives up: every reason for that, and with --seeds how often it was
    used in a campaign of these seeds without faults and under the profiles rough and storm.
    """
    if page is not None and (seeds is None or not excuses):
        raise BadInput("--page", str(page), "expected --excuses and --seeds with it")
    if excuses:
        _excuses(seeds, jobs, json, page)
        return
    if seeds is not None:
        raise BadInput("--seeds", f"{seeds.start}:{seeds.stop}", "expected --excuses with it")
    from squall.model.checks.registry import PROPERTIES

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


def _excuses(seeds: range | None, jobs: int, json: bool, file: Path | None) -> None:
    from squall.sim.cli.reports.excuses import page, rule_names, uses

    counted = uses(seeds, jobs=jobs)
    if counted.interrupted:
        raise typer.Exit(INTERRUPTED)
    listed = counted.listed
    if file is not None and seeds is not None:
        try:
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            file.write_text(page(listed, seeds, text), encoding="utf-8")
        except OSError as error:
            problem = f"cannot write {str(file)!r}: {error.strerror}"
            raise BadInput("--page", str(file), problem) from None
    if json:
        found = [
            {"name": use.name, "reason": use.reason, "used": use.times or None} for use in listed
        ]
        typer.echo(json_module.dumps({"excuses": found, "rules": rule_names()}))
        raise typer.Exit(exit_code(good=counted.ok))
    rows = []
    for use in listed:
        times = ", ".join(f"{count:,} {name}" for name, count in use.times.items())
        rows.append((use.name, f"{use.reason}" + (f" (used: {times})" if times else "")))
    _print(rows)
    rules = ", ".join(rule_names())
    typer.echo(f"squall diff accepts what these rules predict (docs/divergences.md): {rules}")
    raise typer.Exit(exit_code(good=counted.ok))
