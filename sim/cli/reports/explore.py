"""What ``squall explore`` says, for people and for machines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text

from squall.model.coverage.sometimes import situations
from squall.model.events.names import in_words
from squall.sim.cli.panels import print_panel, summary_table, verdict
from squall.sim.cli.reports.group_orders import ToldOfGroups
from squall.sim.explore.campaign import ExploredPart
from squall.sim.explore.execution import How
from squall.sim.explore.faults import kind_of
from squall.sim.explore.state import digest
from squall.sim.explore.tree import Explored, Found
from squall.sim.scenario import Scenario
from squall.sim.scenarios.failure import Failure
from squall.sim.scenarios.keeping import Keeper

#: explorations, and failures, that are shown one by one
_MOST_SHOWN = 12


@dataclass
class ExploredScenario:
    """One scenario: what was given, its explorations, and the failures that were kept."""

    text: str
    scenario: Scenario
    parts: list[ExploredPart] = field(default_factory=list)
    kept: list[tuple[Found, Failure | None, str]] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return any(part.explored.failed for part in self.parts)

    @property
    def exhausted(self) -> bool:
        return bool(self.parts) and all(part.explored.exhausted for part in self.parts)

    @property
    def interrupted(self) -> bool:
        return any(part.explored.interrupted for part in self.parts)

    @property
    def situations(self) -> set[str]:
        """Rare situations that any execution has reached."""
        return {name for part in self.parts for name in part.explored.situations}

    @property
    def outcome(self) -> str:
        if self.interrupted:
            return "interrupted"
        if self.failed:
            return "failed"
        return "ok" if self.exhausted else "not exhausted"


def keep(
    part: ExploredPart, warn: Callable[[str], object]
) -> list[tuple[Found, Failure | None, str]]:
    """Put the failures of an exploration into the store, each with an order that shows it."""
    keeper = Keeper(warn)
    return [
        (found, keeper.keep(small, found_by="explore", text=str(found.violation)), part.fault)
        for found, small in part.counterexamples()
    ]


def not_covered(how: How) -> list[str]:
    """What an exploration does not order, a line each."""
    lines = [
        "timers of one instant in both orders, and timers that fire while something else could go on",
        "preemption inside user code, and module globals that functions of several workers share",
    ]
    if how.grain == "message":
        lines.insert(
            0, "tasks of one worker in another order than first come, first served (--grain task)"
        )
    if how.ordered:
        lines.append("messages that overtake others on their own connection (--unordered)")
    return lines


def explored_json(told: list[ExploredScenario], how: How, of_groups: list[ToldOfGroups]) -> str:
    """The object of ``squall explore --json``; its keys are in docs/json.md."""
    every: list[ExploredScenario | ToldOfGroups] = [*told, *of_groups]
    outcomes = [each.outcome for each in every]
    worst = [
        outcome for outcome in ("interrupted", "failed", "not exhausted") if outcome in outcomes
    ]
    return json.dumps(
        {
            "outcome": worst[0] if worst else "ok",
            "grain": how.grain,
            "ordered": how.ordered,
            "not_covered": not_covered(how),
            "scenarios": [scenario_json(each) for each in told],
            "groups": [each.to_json() for each in of_groups],
        },
        allow_nan=False,
    )


def scenario_json(told: ExploredScenario) -> dict[str, Any]:
    """What is said of one scenario."""
    return {
        "scenario": told.text,
        "outcome": told.outcome,
        "explorations": [
            {"fault": part.fault or None, **_numbers(part.explored)} for part in told.parts
        ],
        "sometimes": {name: name in told.situations for name in situations("port")},
        "violations": [
            {
                **found.violation.to_json(),
                "fault": fault or None,
                "execution": found.executions,
                "file": None if kept is None else kept.file,
                "replay": None if kept is None else kept.replay,
            }
            for found, kept, fault in told.kept
        ],
    }


def _numbers(explored: Explored) -> dict[str, Any]:
    return {
        "exhausted": explored.exhausted,
        "executions": explored.executions,
        "complete": explored.complete,
        "pruned": explored.pruned,
        "classes": len(explored.classes),
        "failed": explored.failed,
        "left": round(explored.left) if math.isfinite(explored.left) else None,
        "longest": explored.longest,
        "wall_time_s": explored.seconds,
        "states": [
            {"state": digest([state]), "executions": times, "chosen": explored.choices_of[state]}
            for state, times in explored.states.items()
        ],
    }


def print_explored(
    told: list[ExploredScenario], of_groups: list[ToldOfGroups], how: How, console: Console
) -> None:
    """A panel for each scenario, and what is covered by none."""
    for script in of_groups:
        script.print(console)
    for each in told:
        table = summary_table()
        table.add_row("outcome", verdict(_outcome(each), good=each.outcome == "ok"))
        for part in each.parts[:1] if len(each.parts) > _MOST_SHOWN else each.parts:
            _add(table, part)
        if len(each.parts) > 1:
            _add_sums(table, each.parts[1:])
        reached, of = len(each.situations), len(situations("port"))
        table.add_row("sometimes", f"{reached} of {of} rare situations (--json has their names)")
        for found, kept, fault in each.kept[:_MOST_SHOWN]:
            where = f" (with {fault})" if fault else ""
            text = in_words(f"{found.violation}{where}", {})
            table.add_row("breaks", Text(text, style="red"))
            if kept is not None:
                table.add_row("again", Text(kept.replay))
        if len(each.kept) > _MOST_SHOWN:
            more = len(each.kept) - _MOST_SHOWN
            table.add_row("breaks", Text(f"and {more:,} more (--json has all of them)"))
        good = {"ok": True, "failed": False}.get(each.outcome)
        print_panel(console, table, f"squall explore {each.text}", good=good)
    for line in not_covered(how) if told else ():
        console.print(Text(f"not covered: {line}", style="dim"))


def _outcome(told: ExploredScenario) -> str:
    if told.interrupted:
        return "interrupted"
    if told.failed:
        failed = sum(part.explored.failed for part in told.parts)
        return f"{failed:,} executions in which something does not hold"
    if told.exhausted:
        return "every execution satisfies every property"
    return "not exhausted: nothing found so far, and the budget is spent"


def _add(table: Any, part: ExploredPart) -> None:
    explored = part.explored
    said = f"{explored.complete:,} executions of {len(explored.classes):,} classes"
    if explored.pruned:
        said += f", {explored.pruned:,} pruned"
    said += f", {len(explored.states):,} final states, {explored.per_second:,.0f}/s"
    if not explored.exhausted:
        said += f"; about {explored.left:,.0f} left (Knuth's estimate)"
    table.add_row(in_words(part.fault, {}) or "explored", said)


def _add_sums(table: Any, parts: list[ExploredPart]) -> None:
    """A line for each kind of fault, and one for all."""
    by_kind: dict[str, list[ExploredPart]] = {}
    for part in parts:
        by_kind.setdefault(kind_of(part.fault), []).append(part)
    for kind, these in by_kind.items():
        table.add_row(kind, _sum(these))
    table.add_row("one fault", _sum(parts))


def _sum(parts: list[ExploredPart]) -> str:
    complete = sum(part.explored.complete for part in parts)
    classes = sum(len(part.explored.classes) for part in parts)
    states = len({state for part in parts for state in part.explored.states})
    cut = sum(not part.explored.exhausted for part in parts)
    said = (
        f"{len(parts):,} explorations, {complete:,} executions of {classes:,} classes, "
        f"{states:,} final states"
    )
    return said + (f"; {cut:,} not exhausted" if cut else ", all exhausted")
