"""``squall conformance``: what it was asked for, progress, and what came out."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from squall.sim.cli.input import BadInput, engine_name, integer
from squall.sim.conformance.run import run
from squall.sim.conformance.suites import SUITES, collect
from squall.sim.conformance.tests import VERDICTS, MissingPackageError, Result, Test, Verdict

WIDTH = 100
MAX_JOBS = 256
#: lines of what a failed test printed that are shown
LOG_LINES = 15
_STYLES: dict[Verdict, str] = {
    "passed": "green",
    "failed": "bold red",
    "not_applicable": "dim",
}


@dataclass(frozen=True, kw_only=True)
class ConformanceOptions:
    """What was asked for, checked."""

    tests: list[Test]
    engine: str
    jobs: int


def read_options(
    *, suites: Iterable[str], pattern: str, engine: str, jobs: str | None
) -> ConformanceOptions:
    """Raises :class:`BadInput` for the first thing that is wrong."""
    suites = list(suites)
    for suite in suites:
        if suite not in SUITES:
            known = ", ".join(SUITES)
            raise BadInput("SUITE", suite, f"there is no suite {suite!r}, expected one of {known}")
    tests = collect(suites, pattern)
    if not tests:
        of = f" of {', '.join(dict.fromkeys(suites))}" if suites else ""
        problem = f"no test{of} has {pattern!r} in its name, expected a part, such as backward"
        raise BadInput("-k", pattern, problem)
    return ConformanceOptions(
        tests=tests,
        engine=engine_name(engine),
        jobs=_cores() if jobs is None else integer("--jobs", jobs, 1, MAX_JOBS),
    )


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
        return "ok" if self.ok else "failed"

    def to_json(self) -> str:
        """The object of ``squall conformance --json``; its keys are in docs/json.md."""
        return json.dumps(
            {
                "engine": self.engine,
                "outcome": self.outcome,
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


def run_conformance(options: ConformanceOptions, console: Console) -> Conformance:
    """Play the tests, with a line on ``console`` as each ends, and a bar on a terminal.

    What was found until somebody interrupts it is kept. Raises :class:`BadInput`.
    """
    if options.engine == "torch":
        from squall.sim.cli.native import ready_native

        ready_native(sys.stderr)
    started = time.monotonic()
    count = len(options.tests)
    found: dict[str, Result] = {}
    interrupted = False
    progress = Progress(
        TextColumn("conformance"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}", style="bold red"),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
        transient=True,
        disable=not console.is_terminal,
    )
    bar = progress.add_task("conformance", total=count, failed="")
    failures = 0
    try:
        with progress:
            for result in run(options.tests, jobs=options.jobs, engine=options.engine):
                found[result.test.id] = result
                failures += result.verdict == "failed"
                failed = f"{failures} failed" if failures else ""
                progress.update(bar, completed=len(found), failed=failed)
                console.print(_line(result, len(found), count), soft_wrap=True)
                progress.refresh()
    except MissingPackageError as error:
        raise BadInput("conformance", "", str(error)) from None
    except KeyboardInterrupt:
        interrupted = True
    results = [found[test.id] for test in options.tests if test.id in found]
    return Conformance(options.engine, results, time.monotonic() - started, count, interrupted)


def print_conformance(outcome: Conformance, console: Console) -> None:
    """Failures, then the counts of each suite."""
    width = min(WIDTH, console.width)
    for result in outcome.results:
        if result.verdict == "failed":
            console.print()
            console.print(_failure(result), soft_wrap=True)
    if outcome.interrupted:
        console.print()
        played = f"interrupted: {len(outcome.results)} of {outcome.asked} tests were played"
        console.print(Text(played, style="yellow"), soft_wrap=True)
    console.print()
    console.print(
        Panel(
            _summary(outcome),
            title="squall: PyTorch's own tests",
            title_align="left",
            border_style="green" if outcome.ok else "red",
            padding=(1, 2),
            width=width,
        )
    )


def _line(result: Result, number: int, count: int) -> Text:
    digits = len(str(count))
    text = Text(f"{number:>{digits}}/{count}  {result.seconds:6.2f} s  ")
    text.append(f"{result.verdict.replace('_', ' '):<14}", style=_STYLES[result.verdict])
    text.append(f"  {result.test.id}")
    if result.verdict == "not_applicable":
        text.append(f": {result.why}", style="dim")
    return text


def _failure(result: Result) -> Text:
    text = Text()
    text.append(f"{result.test.id}\n", style="bold red")
    text.append("".join(f"  {line}\n" for line in result.why.strip().splitlines()))
    lines = result.log.rstrip().splitlines()
    if len(lines) > LOG_LINES:
        lines = ["...", *lines[-LOG_LINES:]]
    text.append("".join(f"    {line}\n" for line in lines), style="dim")
    text.append(f"  again: squall conformance -k {result.test.id}", style="dim")
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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
