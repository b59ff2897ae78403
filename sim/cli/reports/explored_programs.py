"""What ``squall explore --programs`` says, for people and for machines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text

from squall.model.events.names import in_words
from squall.sim.cli.panels import print_panel, summary_table, verdict
from squall.sim.cli.reports.explore import ExploredScenario, not_covered, scenario_json
from squall.sim.explore.campaign import ExploredPart
from squall.sim.explore.execution import How

#: programs that are shown one by one
_MOST_SHOWN = 8


@dataclass
class Totals:
    """What the explorations of some programs have come to, together.

    ``exhausted`` programs were run in every order; of ``failed`` ones something does not hold in
    some execution. ``several``: those that have more than one final state without a fault, with
    their number of states.
    """

    programs: int = 0
    explorations: int = 0
    exhausted: int = 0
    failed: int = 0
    executions: int = 0
    complete: int = 0
    pruned: int = 0
    classes: int = 0
    states: int = 0
    largest: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    several: list[tuple[str, int]] = field(default_factory=list)

    def add(self, text: str, explored: list[ExploredPart]) -> None:
        """Count all explorations of a program, the first of which is without a fault."""
        self.programs += 1
        self.explorations += len(explored)
        self.exhausted += all(part.explored.exhausted for part in explored)
        self.failed += any(part.explored.failed for part in explored)
        self.interrupted |= any(part.explored.interrupted for part in explored)
        for each in (part.explored for part in explored):
            for name in ("executions", "complete", "pruned", "seconds"):
                setattr(self, name, getattr(self, name) + getattr(each, name))
            self.classes += len(each.classes)
            self.states += len(each.states)
            self.largest = max(self.largest, each.executions)
        states = len(explored[0].explored.states)
        if states > 1:
            self.several.append((text, states))


def outcome(totals: Totals) -> str:
    """As of one scenario."""
    if totals.interrupted:
        return "interrupted"
    if totals.failed:
        return "failed"
    return "ok" if totals.exhausted == totals.programs else "not exhausted"


def programs_json(
    expression: str, count: int, totals: Totals, told: list[ExploredScenario], how: How
) -> str:
    """The object of ``squall explore --programs --json``; its keys are in docs/json.md."""
    return json.dumps(
        {
            "outcome": outcome(totals),
            "grain": how.grain,
            "ordered": how.ordered,
            "not_covered": not_covered(how),
            "programs": {
                "expression": expression,
                "count": count,
                "explored": totals.programs,
                "exhausted": totals.exhausted,
                "failed": totals.failed,
                "explorations": totals.explorations,
                "executions": totals.executions,
                "complete": totals.complete,
                "pruned": totals.pruned,
                "classes": totals.classes,
                "states": totals.states,
                "largest": totals.largest,
                "several_states": [
                    {"program": text, "states": states} for text, states in totals.several
                ],
                "wall_time_s": totals.seconds,
            },
            "scenarios": [scenario_json(each) for each in told],
        },
        allow_nan=False,
    )


def print_programs(
    expression: str,
    count: int,
    totals: Totals,
    told: list[ExploredScenario],
    how: How,
    console: Console,
) -> None:
    """Totals, and each program of which something does not hold."""
    table = summary_table()
    said = outcome(totals)
    table.add_row("outcome", verdict(_in_words(totals, said), good=said == "ok"))
    done = "" if totals.programs == count else f" of {count:,}"
    table.add_row("programs", f"{totals.programs:,}{done}, {totals.exhausted:,} in every order")
    _add_totals(table, totals)
    for text, states in totals.several[:_MOST_SHOWN]:
        table.add_row("states", f"{states} of {text}")
    if len(totals.several) > _MOST_SHOWN:
        table.add_row("states", f"and {len(totals.several) - _MOST_SHOWN:,} more programs")
    for each in told[:_MOST_SHOWN]:
        for found, kept, fault in each.kept[:1]:
            where = f", with {fault}" if fault else ""
            text = in_words(f"{each.text}{where}: {found.violation}", {})
            table.add_row("breaks", Text(text, style="red"))
            if kept is not None:
                table.add_row("again", Text(kept.replay))
    good = {"ok": True, "failed": False}.get(said)
    print_panel(console, table, f"squall explore --programs {expression!r}", good=good)
    for line in not_covered(how):
        console.print(Text(f"not covered: {line}", style="dim"))


def _in_words(totals: Totals, said: str) -> str:
    if said == "ok":
        return "every execution of every program satisfies every property"
    if said == "failed":
        return f"{totals.failed:,} programs in which something does not hold"
    if said == "interrupted":
        return said
    left = totals.programs - totals.exhausted
    return f"not exhausted: nothing found so far, and the budget of {left:,} programs is spent"


def _add_totals(table: Any, totals: Totals) -> None:
    rate = totals.executions / totals.seconds if totals.seconds else 0.0
    behaviours = (
        f"{totals.complete:,} executions of {totals.classes:,} classes, {totals.pruned:,} pruned, "
        f"{totals.states:,} final states, {rate:,.0f}/s"
    )
    table.add_row("explored", behaviours)
    table.add_row("largest", f"{totals.largest:,} executions")
    if totals.explorations > totals.programs:
        table.add_row("faults", f"{totals.explorations - totals.programs:,} explorations with one")
