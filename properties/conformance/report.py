"""What ``squall conformance`` says of PyTorch's own tests, for people and for machines."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from squall.model.events.run import NOT_CHECKED
from squall.properties.conformance.tests import VERDICTS, Result, Verdict
from squall.sim.cli.panels import print_panel

#: lines of what a failed test printed that are shown
LOG_LINES = 15
_STYLES: dict[Verdict, str] = {
    "passed": "green",
    "failed": "bold red",
    "not_applicable": "dim",
}


@dataclass(frozen=True)
class Conformance:
    """What came out of a run."""

    engine: str
    results: list[Result]
    #: wall time of the whole run
    seconds: float
    #: how many tests there were to play
    asked: int
    #: stopped before all of them were played
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        return all(result.verdict != "failed" for result in self.results)

    @property
    def outcome(self) -> str:
        if self.interrupted:
            return "interrupted"
        if not self.ok:
            return "failed"
        return "ok" if self.unchecked is None else NOT_CHECKED

    @property
    def unchecked(self) -> str | None:
        """Why nothing was checked; None if something was."""
        if any(result.verdict != "not_applicable" for result in self.results):
            return None
        return f"0 of {self.asked:,} tests could be played"

    def to_json(self) -> str:
        """The object of ``squall conformance --json``; its keys are in docs/json.md."""
        return json.dumps(
            {
                "engine": self.engine,
                "outcome": self.outcome,
                "checked": self.unchecked is None,
                "unchecked": self.unchecked,
                "wall_time_s": self.seconds,
                "suites": {
                    suite: {
                        **{verdict: _count(results, verdict) for verdict in VERDICTS},
                        "seconds": sum(result.seconds for result in results),
                    }
                    for suite, results in self.by_suite().items()
                },
                "tests": {result.test.id: result.verdict for result in self.results},
                "reasons": {result.test.id: result.why for result in self.results if result.why},
            }
        )

    def by_suite(self) -> dict[str, list[Result]]:
        """The results, in the order of the suites and of the tests within each."""
        suites: dict[str, list[Result]] = {}
        for result in self.results:
            suites.setdefault(result.test.suite, []).append(result)
        return suites


def print_conformance(outcome: Conformance, console: Console) -> None:
    """Failures, then the counts of each suite."""
    for result in outcome.results:
        if result.verdict == "failed":
            console.print()
            console.print(_failure(result, outcome.engine), soft_wrap=True)
    if outcome.interrupted:
        console.print()
        played = f"interrupted: {len(outcome.results)} of {outcome.asked} tests were played"
        console.print(Text(played, style="yellow"), soft_wrap=True)
    console.print()
    if outcome.unchecked is not None and not outcome.interrupted:
        console.print(Text(f"{NOT_CHECKED}: {outcome.unchecked}", style="yellow"))
    title = "squall: PyTorch's own tests"
    print_panel(console, _summary(outcome), title, good=outcome.ok)


def result_line(result: Result, number: int, count: int) -> Text:
    """What came of one test."""
    digits = len(str(count))
    text = Text(f"{number:>{digits}}/{count}  {result.seconds:6.2f} s  ")
    text.append(f"{result.verdict.replace('_', ' '):<14}", style=_STYLES[result.verdict])
    text.append(f"  {result.test.id}")
    if result.verdict == "not_applicable":
        text.append(f": {result.why}", style="dim")
    return text


def _failure(result: Result, engine: str) -> Text:
    text = Text()
    text.append(f"{result.test.id}\n", style="bold red")
    text.append("".join(f"  {line}\n" for line in result.why.strip().splitlines()))
    lines = result.log.rstrip().splitlines()
    if len(lines) > LOG_LINES:
        lines = ["...", *lines[-LOG_LINES:]]
    text.append("".join(f"    {line}\n" for line in lines), style="dim")
    where = "" if result.test.device == "cpu" else f" --device {result.test.device}"
    where += "" if engine == "port" else f" --engine {engine}"
    started = result.test.owner.started
    where += "" if started is None else f" --tests {started.file}"
    text.append(f"  again: squall conformance -k {result.test.name}{where}", style="dim")
    return text


def _summary(outcome: Conformance) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    table.add_column(no_wrap=True)
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    table.add_row(*(Text(w, style="dim") for w in ("suite", "passed", "failed", "n/a", "time")))
    for suite, results in outcome.by_suite().items():
        table.add_row(suite, *_row(results, sum(result.seconds for result in results)))
    table.add_row(Text("all", style="bold"), *_row(outcome.results, outcome.seconds))
    return table


def _row(results: list[Result], seconds: float) -> list[RenderableType]:
    counts = [_count(results, verdict) for verdict in VERDICTS]
    cells: list[RenderableType] = [
        Text(str(count), style=_STYLES[verdict] if count else "")
        for verdict, count in zip(VERDICTS, counts, strict=True)
    ]
    return [*cells, f"{seconds:.1f} s"]


def _count(results: list[Result], verdict: Verdict) -> int:
    return sum(result.verdict == verdict for result in results)
