"""``squall conformance``: PyTorch's own tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.engine import ready
from squall.sim.cli.exits import INTERRUPTED, exit_code
from squall.sim.cli.options import AllowUnchecked, Engine, Json, OnDevice, OneJobACore
from squall.sim.cli.parsers import device_of
from squall.sim.names import Device, EngineName

if TYPE_CHECKING:
    from squall.sim.cli.reports.conformance import Conformance
    from squall.sim.conformance.tests import Result, Test

RANK = 20
EPILOG = """\
[bold]Suites[/bold]

dist_autograd, dist_optimizer, faulty_agent, examples, rpc, tensorpipe_rpc

With --engine torch: groups, too

With --device cuda or stand-in: cuda_dist_autograd, cuda_rpc

[bold]Examples[/bold]

squall conformance

squall conformance dist_autograd -k nested --jobs 1

squall conformance -k RpcTest.test_add --json

squall conformance groups --engine torch     (of process groups: DistributedTest)

squall conformance --device stand-in     (the tests of CUDA, on any machine)
"""


def conformance(
    suites: Annotated[
        list[str] | None,
        typer.Argument(metavar="SUITE", help="Suites to run; all of them if none is named."),
    ] = None,
    pattern: Annotated[
        str, typer.Option("-k", metavar="PATTERN", help="Only tests with this in their name.")
    ] = "",
    engine: Engine = "port",
    device: OnDevice = "cpu",
    jobs: OneJobACore = None,
    allow_unchecked: AllowUnchecked = False,
    json: Json = False,
) -> None:
    """Run PyTorch's own tests of RPC and distributed autograd, unmodified, in the simulator."""
    device_of(engine, device)
    tests = _collect(suites or [], pattern, device, engine)
    ready(engine)
    console = Console(stderr=json, highlight=False)
    outcome = _play(tests, engine, jobs or _cores(), console)
    from squall.sim.cli.reports.conformance import print_conformance

    if json:
        typer.echo(outcome.to_json())
    else:
        print_conformance(outcome, console)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)
    unchecked = outcome.unchecked
    raise typer.Exit(exit_code(good=outcome.ok, unchecked=unchecked, allowed=allow_unchecked))


def _collect(suites: Iterable[str], pattern: str, device: Device, engine: EngineName) -> list[Test]:
    """The tests that are meant. Raises :class:`BadInput` if there is none."""
    from squall.sim.conformance.suites import GROUP_SUITES, collect, suites_of

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


def _play(tests: list[Test], engine: EngineName, jobs: int, console: Console) -> Conformance:
    """Play the tests, with a line on ``console`` as each ends, and a bar on a terminal.

    What was found until somebody interrupts it is kept. Raises :class:`BadInput`.
    """
    from squall.sim.cli.reports.conformance import Conformance, result_line
    from squall.sim.conformance.run import run
    from squall.sim.conformance.tests import MissingPackageError

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
            for result in run(tests, jobs=jobs, engine=engine):
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
    return Conformance(engine, results, time.monotonic() - started, count, interrupted)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
