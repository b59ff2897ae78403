"""What ``squall mutants --explore`` says, for people and for machines."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.sim.cli.panels import WIDTH, print_panel, summary_table, verdict
from squall.sim.search.mutants.bounds import BOUNDS
from squall.sim.search.mutants.exploring import Exploration


def alarming(results: list[Exploration]) -> list[Exploration]:
    """Those that were not found though nothing says why, and those that could not be tried."""
    return [
        each
        for each in results
        if each.problem is not None
        or (each.found is None and each.mutant.expected and each.mutant.name not in BOUNDS)
    ]


def explored_line(result: Exploration) -> str:
    """One line for a terminal."""
    name, found = result.mutant.name, result.found
    if result.problem is not None:
        return f"{name}: {result.problem}"
    tried = f"{result.executions:,} executions, {result.seconds:.1f} s"
    if found is None:
        return f"{name}: not found, {tried}; needs {result.bound}"
    return f"{name}: {found.violation.property} after {tried}, {in_words(result)}"


def in_words(result: Exploration) -> str:
    """Where a bug shows, and in which order."""
    found = result.found
    if found is None:
        return ""
    fault = f", {found.case.fault}" if found.case.fault else ""
    count = len(found.names)
    order = "first come, first served" if not count else f"{count} go first"
    if not found.shortest:
        order += " (it may be done with fewer)"
    return f"{found.case.world} ({found.case.grain}){fault}: {order}"


def explored_json(results: list[Exploration], asked: int, seconds: float) -> str:
    """The object of ``squall mutants --explore --json``; its keys are in docs/json.md."""
    outcome = "failed" if alarming(results) else "ok"
    return json.dumps(
        {
            "outcome": "interrupted" if len(results) < asked else outcome,
            "mutants": [result.to_json() for result in results],
            "found": sum(result.found is not None for result in results),
            "total": asked,
            "not_found": [result.mutant.name for result in results if result.found is None],
            "seconds": seconds,
        },
        allow_nan=False,
    )


def print_explored(results: list[Exploration], asked: int, console: Console) -> None:
    """A line for each, and a summary."""
    console = Console(file=console.file, width=max(WIDTH, console.width), highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("mutant", no_wrap=True)
    table.add_column("found by", no_wrap=True)
    table.add_column("executions", justify="right")
    table.add_column("length", justify="right")
    table.add_column("where")
    for result in results:
        found = result.found
        if found is None:
            by, length = Text("not found", "yellow"), ""
            where = result.problem or f"needs {result.bound}"
        else:
            by, length = Text(found.violation.property, "green"), f"{found.length}"
            where = in_words(result)
        table.add_row(result.mutant.name, by, f"{result.executions:,}", length, Text(where))
    console.print(table)
    summary = summary_table()
    count = sum(result.found is not None for result in results)
    good = not alarming(results)
    summary.add_row("found", verdict(f"{count:,} of {len(results):,}", good=good))
    if len(results) < asked:
        summary.add_row("", Text("interrupted", style="yellow"))
    print_panel(console, summary, "squall mutants --explore", good=good)
