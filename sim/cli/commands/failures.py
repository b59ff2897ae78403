"""``squall failures``: what was found and kept."""

from __future__ import annotations

import json as json_module
import os
from datetime import datetime
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.options import Json

if TYPE_CHECKING:
    from squall.sim.scenarios.failure import Failure

#: characters of a message
_MOST_SHOWN = 240

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
    console = Console(highlight=False, soft_wrap=True)
    for file in unreadable:
        console.print(f"cannot be read: {file}", style="yellow", markup=False)
    if not found:
        console.print(f"no failure is kept in {place.folder}")
        return
    _print(found, console)
    console.print("squall why NAME says what decided one, squall replay NAME runs it again")


def _print(found: list[Failure], console: Console) -> None:
    """A line each for what it was, what went wrong, and where: one line would be too long."""
    lines = [("name", "first seen", "by", "times", "script or test")]
    for kept in found:
        when = datetime.fromtimestamp(kept.found_at).strftime("%m-%d %H:%M")
        lines.append((kept.name, when, kept.found_by, f"{kept.count:,}", kept.ran))
    for number, (name, when, by, times, ran) in enumerate(lines):
        console.print(Text(f"{name:<8}  {when:<11}  {by:<8}  {times:>5}  {ran}"))
        if number:
            kept = found[number - 1]
            console.print(Text(f"          {kept.message[:_MOST_SHOWN]}", style="red"))
            if kept.place:
                console.print(Text(f"          at {_short(kept.place)}"))


def _short(place: str) -> str:
    """``file:line`` without the working directory."""
    return os.path.relpath(place) if place.startswith(os.getcwd() + os.sep) else place
