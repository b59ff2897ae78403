"""What ``squall replay --diff`` says: where two runs part, for people and for machines."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from squall.model.events.run import NOT_CHECKED, Run
from squall.sim.pictures.narrate import narrate
from squall.sim.scenarios.replay import FirstDifference

#: events shown before the place where two runs part, and behind it on either side
_AROUND = 3


def nothing_compared(mine: Run, yours: Run) -> str | None:
    """Why two runs could not differ; None if they could."""
    return None if mine.records or yours.records else "neither run has an event"


def difference_json(found: FirstDifference | None, mine: Run, yours: Run) -> str:
    """The object of ``squall replay --diff --json``; its keys are in docs/json.md."""
    return json.dumps(
        {
            "digest": mine.digest,
            "other_digest": yours.digest,
            "equal": found is None,
            "first_difference": None if found is None else _difference_json(found, mine, yours),
            "checked": nothing_compared(mine, yours) is None,
            "unchecked": nothing_compared(mine, yours),
            "outcome": mine.outcome,
            "other_outcome": yours.outcome,
        },
        allow_nan=False,
    )


def print_difference(
    found: FirstDifference | None, mine: Run, yours: Run, console: Console
) -> None:
    """The last events that the runs share, and what each does then."""
    unchecked = nothing_compared(mine, yours)
    if unchecked is not None:
        console.print(f"{NOT_CHECKED}: {unchecked}", style="yellow")
    elif found is None:
        console.print(f"the same run: {len(mine.records):,} events, digest {mine.digest}")
    else:
        _print_difference(found, mine, yours, console)


def _difference_json(found: FirstDifference, mine: Run, yours: Run) -> dict[str, Any]:
    number = found.number
    sides = [(found.one, mine), (found.other, yours)]
    texts = [next(narrate(run, first=number, last=number + 1), None) for _, run in sides]
    times = [side[0] for side, _ in sides if side is not None]
    return {"event": number, "time_s": min(times), "this": texts[0], "other": texts[1]}


def _print_difference(found: FirstDifference, mine: Run, yours: Run, console: Console) -> None:
    number = found.number
    same = f"the same up to event {number - 1}, and then not:" if number else "nothing in common:"
    console.print(Text(same, style="bold"))
    first = max(0, number - _AROUND)
    for at, line in enumerate(narrate(mine, first=first, last=number), first):
        console.print(f"  #{at} {line}", markup=False, style="dim")
    for sign, style, run in (("-", "red", mine), ("+", "green", yours)):
        lines = list(narrate(run, first=number, last=number + _AROUND))
        for at, line in enumerate(lines, number):
            console.print(Text(f"{sign} #{at} {line} [task {run.records[at][2]}]", style=style))
        if not lines:
            console.print(Text(f"{sign} has ended", style=style))
