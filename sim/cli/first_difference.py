"""``squall replay --diff``: where two runs part."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from squall.model.events.digest import Record
    from squall.model.events.run import Run
    from squall.sim.scenario import Scenario
    from squall.sim.scenarios.replay import FirstDifference

FAILED = 1
#: events shown before the place where two runs part, and behind it on either side
_AROUND = 3


def diff_runs(one: Scenario, other: Scenario, console: Console, *, json: bool) -> int:
    """Run both scenarios and tell where they part; the exit code."""
    from squall.sim.scenarios.replay import first_difference
    from squall.sim.search.again import again

    mine, yours = again(one), again(other)
    found = first_difference(mine.records, yours.records)
    if json:
        told = {
            "digest": mine.digest,
            "other_digest": yours.digest,
            "equal": found is None,
            "first_difference": None if found is None else _difference_json(found, mine, yours),
            "outcome": mine.outcome,
            "other_outcome": yours.outcome,
        }
        typer.echo(json_module.dumps(told, allow_nan=False))
    elif found is None:
        console.print(f"the same run: {len(mine.records):,} events, digest {mine.digest}")
    else:
        _print_difference(found, mine.records, yours.records, console)
    return 0 if found is None else FAILED


def _difference_json(found: FirstDifference, mine: Run, yours: Run) -> dict[str, Any]:
    from squall.sim.pictures.narrate import sentence

    number = found.number
    sides = [(found.one, mine.records), (found.other, yours.records)]
    texts = [None if side is None else sentence(records, number) for side, records in sides]
    times = [side[0] for side, _ in sides if side is not None]
    return {"event": number, "time_s": min(times), "this": texts[0], "other": texts[1]}


def _print_difference(
    found: FirstDifference, mine: Sequence[Record], yours: Sequence[Record], console: Console
) -> None:
    from squall.sim.pictures.narrate import narrate

    number = found.number
    same = f"the same up to event {number - 1}, and then not:" if number else "nothing in common:"
    console.print(Text(same, style="bold"))
    first = max(0, number - _AROUND)
    for at, line in enumerate(narrate(mine, first=first, last=number), first):
        console.print(f"  #{at} {line}", markup=False, style="dim")
    for sign, style, records in (("-", "red", mine), ("+", "green", yours)):
        lines = list(narrate(records, first=number, last=number + _AROUND))
        for at, line in enumerate(lines, number):
            console.print(Text(f"{sign} #{at} {line} [task {records[at][2]}]", style=style))
        if not lines:
            console.print(Text(f"{sign} has ended", style=style))
