"""``squall failures``: what was found and kept."""

from __future__ import annotations

import json as json_module
from datetime import datetime
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.options import Json

if TYPE_CHECKING:
    from squall.sim.scenarios.failure import Failure

#: characters of what broke
_MOST_SHOWN = 100

RANK = 90
EPILOG = """\
[bold]Examples[/bold]

squall failures

squall failures --json

squall replay 0a1b2c3d                 (a failure by its name)

They are under .squall/ in the working directory; SQUALL_STORE names another folder.
"""


def failures(json: Json = False) -> None:
    """List the failures that campaigns, scripts and tests have left in this folder."""
    from squall.sim.scenarios.store import Store, StoreError, default_place

    place = default_place()
    try:
        found, unreadable = Store(place).failures(), Store(place).unreadable()
    except StoreError as error:
        raise BadInput(str(place.folder), str(place.folder), str(error)) from None
    if json:
        told = {
            "store": str(place.folder),
            "failures": [kept.to_json() for kept in found],
            "unreadable": [str(file) for file in unreadable],
        }
        typer.echo(json_module.dumps(told, allow_nan=False))
        return
    console = Console(highlight=False)
    for file in unreadable:
        console.print(f"cannot be read: {file}", style="yellow", markup=False)
    if not found:
        console.print(f"no failure is kept in {place.folder}")
        return
    console.print(_table(found))
    console.print("size: workers/operations/faults")
    console.print("squall replay NAME runs one again, squall shrink NAME makes it smaller")


def _table(found: list[Failure]) -> Table:
    from squall.sim.search.schedules import seed_name

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("name", "found", "by", "seed", "size"):
        table.add_column(name, no_wrap=True)
    table.add_column("what broke", overflow="fold")
    for kept in found:
        when = datetime.fromtimestamp(kept.found_at).strftime("%m-%d %H:%M")
        broken, scenario = kept.expected, kept.scenario
        broke = Text(f"{broken.property}: {(broken.what or '')[:_MOST_SHOWN]}", style="red")
        seed = f"{seed_name(scenario)} {scenario.profile or ''}".rstrip()
        parts = (scenario.workers, scenario.operations, len(scenario.faults))
        size = "/".join("-" if part is None else str(part) for part in parts)
        table.add_row(kept.name, when, kept.found_by, seed, size, broke)
    return table
