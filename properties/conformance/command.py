"""What ``squall conformance`` does: it finds the tests that are meant, plays them and tells of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from squall.properties.conformance.checkout import collect_checkout
from squall.properties.conformance.report import Conformance, print_conformance, result_line
from squall.properties.conformance.suites import GROUP_SUITES, collect, suites_of
from squall.properties.conformance.tests import MissingPackageError, Result, Test
from squall.sim.cli.bad_input import BadInput
from squall.sim.names import Device, EngineName


def collected(
    suites: Iterable[str],
    pattern: str,
    device: Device,
    engine: EngineName,
    checkout: Path | None = None,
) -> list[Test]:
    """The tests that are meant, of the wheel or, if one is given, of a checkout. Raises :class:`BadInput` if there is none."""
    if checkout is not None:
        if engine != "torch" or device != "cpu":
            problem = (
                "a checkout's tests are of the compiled engine on a CPU, expected --engine torch"
            )
            raise BadInput("--tests", str(checkout), problem)
        return collect_checkout(checkout, suites, pattern)
    suites, known = list(suites), suites_of(device, engine)
    for suite in suites:
        if suite in GROUP_SUITES and suite not in known:
            problem = (
                f"the suite {suite!r} is of the compiled engine on a CPU, expected --engine torch"
            )
            raise BadInput("SUITE", suite, problem)
        if suite not in known:
            expected = ", ".join(known)
            problem = f"there is no suite {suite!r}, expected one of {expected}"
            raise BadInput("SUITE", suite, problem)
    tests = collect(suites, pattern, device, engine)
    if not tests:
        of = f" of {', '.join(dict.fromkeys(suites))}" if suites else ""
        problem = f"no test{of} has {pattern!r} in its name, expected a part, such as backward"
        raise BadInput("-k", pattern, problem)
    return tests


def played(tests: list[Test], engine: EngineName, jobs: int | None, json: bool) -> Conformance:
    """Play the tests, with a line for each as it ends, and a bar on a terminal; what came of them is printed.

    What was found until somebody interrupts it is kept. Raises :class:`BadInput`.
    """
    from squall.properties.conformance.run import run  # imports torch

    console = Console(stderr=json, highlight=False)
    started = time.monotonic()
    count = len(tests)
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
            for result in run(tests, jobs=jobs or _cores(), engine=engine):
                found[result.test.id] = result
                failures += result.verdict == "failed"
                failed = f"{failures} failed" if failures else ""
                progress.update(bar, completed=len(found), failed=failed)
                console.print(result_line(result, len(found), count), soft_wrap=True)
                progress.refresh()
    except MissingPackageError as error:
        raise BadInput("conformance", "", str(error)) from None
    except KeyboardInterrupt:
        interrupted = True
    results = [found[test.id] for test in tests if test.id in found]
    outcome = Conformance(engine, results, time.monotonic() - started, count, interrupted)
    if json:
        typer.echo(outcome.to_json())
    else:
        print_conformance(outcome, console)
    return outcome


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
