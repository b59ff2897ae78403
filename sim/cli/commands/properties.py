"""``squall properties``: what must hold for every run."""

from __future__ import annotations

import json as json_module

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.sim.cli.options import Json

RANK = 40


def properties(json: Json = False) -> None:
    """List what must hold for every run."""
    from squall.model.checks.registry import PROPERTIES

    if json:
        listed = [{"name": p.name, "description": p.description} for p in PROPERTIES]
        typer.echo(json_module.dumps({"properties": listed}))
        return
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for property in PROPERTIES:
        table.add_row(property.name, Text(property.description.replace("``", "")))
    console.print(table)
