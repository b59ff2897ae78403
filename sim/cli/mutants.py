"""``squall mutants``: do the properties notice planted bugs?"""

from __future__ import annotations

import difflib
import json as json_module
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from squall.sim.cli.fuzz import FAILED, INTERRUPTED, MAX_JOBS, PROFILES, seed_range
from squall.sim.cli.input import BadInput, integer, one_of
from squall.sim.cli.report import WIDTH

if TYPE_CHECKING:
    from squall.sim.search.mutants.mutant import Mutant
    from squall.sim.search.mutants.result import Result

MAX_SECONDS = 24 * 3600.0

EPILOG = """\
[bold]Examples[/bold]

squall mutants --list

squall mutants --jobs 2                (every mutant that should be noticed)

squall mutants dependency-not-counted --seeds 3:4
"""


@dataclass(frozen=True, kw_only=True)
class MutantOptions:
    """What ``squall mutants`` was asked for, checked. ``seeds`` None: all, for ``seconds``;
    ``profile`` None: the faults that each mutant needs."""

    mutants: tuple[Mutant, ...]
    #: not among them, since nothing brings them out yet
    left_out: tuple[Mutant, ...]
    seconds: float
    jobs: int
    seeds: range | None
    profile: str | None


def read_mutant_options(
    *,
    names: tuple[str, ...],
    everything: bool,
    seconds: str,
    jobs: str,
    seeds: str | None,
    faults: str | None,
    known: Mapping[str, Mutant],
) -> MutantOptions:
    """Raises :class:`BadInput` for the first thing that is wrong."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; squall mutants --list shows them"
            raise BadInput("NAME", name, f"there is no mutant {name!r}{hint}")
    chosen = [known[name] for name in dict.fromkeys(names)] or [
        mutant for mutant in known.values() if everything or mutant.expected
    ]
    if faults is not None:
        one_of("--faults", faults, PROFILES)
    left_out = () if names else tuple(m for m in known.values() if m not in chosen)
    return MutantOptions(
        mutants=tuple(chosen),
        left_out=left_out,
        seconds=_seconds(seconds),
        jobs=integer("--jobs", jobs, 1, MAX_JOBS),
        seeds=None if seeds is None else range(*seed_range(seeds)),
        profile=faults,
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MAX_SECONDS:
        raise BadInput("--seconds", text, f"expected a positive number, got {text!r}")
    return value


def mutants(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Which ones (default: all that should be noticed)."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="Only list them, and what is wrong with each.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that nothing brings out yet.")
    ] = False,
    seconds: Annotated[
        str, typer.Option(metavar="S", help="Real seconds for each of them at most.")
    ] = "60",
    jobs: Annotated[str, typer.Option(metavar="J", help="How many to try at a time.")] = "1",
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="A:B", help="Scenarios A to B-1 only (default: from 0 on).", show_default=False
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(PROFILES),
            help="Faults of this profile (default: for bugs that need faults, of all in turn).",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Plant known bugs in the engine, one at a time, and see which property notices.

    Each is tried in a process of its own, with the scenarios of `squall fuzz`, until one fails.
    Seconds are those of one core.
    """
    from squall.sim.search.mutants.campaign import run_mutants
    from squall.sim.search.mutants.planted import MUTANTS

    options = read_mutant_options(
        names=tuple(names or ()),
        everything=everything,
        seconds=seconds,
        jobs=jobs,
        seeds=seeds,
        faults=faults,
        known=MUTANTS,
    )
    if show:
        listed = options.mutants + options.left_out
        typer.echo(list_json(listed)) if json else print_list(listed, Console())
        return
    progress = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    total = len(options.mutants)
    done = 0

    def on_result(result: Result) -> None:
        nonlocal done
        done += 1
        progress.print(f"[{done}/{total}] {result_line(result)}", markup=False)

    results = run_mutants(
        options.mutants,
        seconds=options.seconds,
        jobs=options.jobs,
        seeds=options.seeds,
        profile=options.profile,
        on_result=on_result,
    )
    if json:
        typer.echo(results_json(results, options))
    else:
        print_results(results, options, Console())
    if len(results) < total:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILED if _alarming(results, options) else 0)


def _alarming(results: list[Result], options: MutantOptions) -> list[Result]:
    """Those that survived and should not have, and those that could not be tried."""
    missed = options.seeds is None
    return [
        result
        for result in results
        if result.problem is not None or (missed and result.mutant.expected and not result.killed)
    ]


def result_line(result: Result) -> str:
    """One line for a terminal."""
    name = result.mutant.name
    if result.problem is not None:
        return f"{name}: {result.problem}"
    tried = f"{result.scenarios:,} scenarios, {result.seconds:.1f} s"
    if result.first is None:
        return f"{name}: survived {tried}"
    return f"{name}: killed by {result.by} after {tried}"


# -- lists ----------------------------------------------------------------------------------------


def _facts(mutant: Mutant) -> dict[str, Any]:
    return {
        "name": mutant.name,
        "place": f"real.{mutant.place}",
        "wrong": mutant.wrong,
        "origin": mutant.origin,
        "needs": mutant.needs,
        "expected": mutant.expected,
        "waits_for": mutant.unseen or None,
    }


def list_json(listed: tuple[Mutant, ...]) -> str:
    """The object of ``squall mutants --list --json``; its keys are in docs/json.md."""
    return json_module.dumps({"mutants": [_facts(mutant) for mutant in listed]})


def print_list(listed: tuple[Mutant, ...], console: Console) -> None:
    for mutant in listed:
        line = Text(mutant.name, "bold")
        line.append(f"  {mutant.origin}", "dim")
        console.print(line, soft_wrap=True)
        wrong = Text(f"    {mutant.wrong}")
        waits_for = mutant.unseen
        if waits_for:
            wrong.append(f" ({waits_for})", "dim")
        console.print(wrong, soft_wrap=True)


# -- results --------------------------------------------------------------------------------------


def results_json(results: list[Result], options: MutantOptions) -> str:
    """The object of ``squall mutants --json``; its keys are in docs/json.md."""
    from squall.sim.search.mutants.result import median_seconds, only_killers

    alarming = _alarming(results, options)
    outcome = "failed" if alarming else "ok"
    return json_module.dumps(
        {
            "outcome": "interrupted" if len(results) < len(options.mutants) else outcome,
            "mutants": [result.to_json() for result in results],
            "killed": sum(result.killed for result in results),
            "total": len(options.mutants),
            "survivors": [result.mutant.name for result in results if not result.killed],
            "median_seconds": median_seconds(results),
            "only_killers": only_killers(results),
            "left_out": [_facts(mutant) for mutant in options.left_out],
            "seconds": options.seconds,
            "jobs": options.jobs,
        },
        allow_nan=False,
    )


def print_results(results: list[Result], options: MutantOptions, console: Console) -> None:
    from squall.sim.search.mutants.result import median_seconds, only_killers

    console = Console(file=console.file, width=max(WIDTH, console.width), highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("mutant", no_wrap=True)
    table.add_column("killed by", no_wrap=True)
    table.add_column("scenarios", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("smallest failing scenario", no_wrap=True)
    for result in results:
        by = Text(result.by, "green") if result.by else Text("survived", "bold red")
        if not result.killed and not result.mutant.expected:
            by = Text("survived", "yellow")
        if result.problem is not None:
            by = Text("not tried", "bold red")
        smallest = result.smallest
        size = "" if smallest is None else str(smallest)
        table.add_row(
            result.mutant.name, by, f"{result.scenarios:,}", f"{result.seconds:.1f}", size
        )
    console.print(table)
    for result in results:
        if result.problem is not None:
            console.print(Text(f"{result.mutant.name}: {result.problem}", "red"), soft_wrap=True)
    if len(results) == 1 and results[0].first is not None:
        console.print(Text(results[0].first.what), soft_wrap=True)
    killed = sum(result.killed for result in results)
    alarming = _alarming(results, options)
    summary = Table.grid(padding=(0, 3))
    summary.add_column(style="dim", no_wrap=True)
    summary.add_column(overflow="fold")
    style = "bold red" if alarming else "bold green"
    summary.add_row("killed", Text(f"{killed:,} of {len(results):,}", style=style))
    median = median_seconds(results)
    if median is not None:
        summary.add_row("time", f"{median:.1f} s in the median, of those that were killed")
    unique = {name: len(found) for name, found in only_killers(results).items() if found}
    if unique:
        listed = ", ".join(f"{name} {count}" for name, count in unique.items())
        summary.add_row("noticed by one property alone", listed)
    if options.left_out:
        left = f"{len(options.left_out)} that nothing brings out yet; --all tries them too"
        summary.add_row("left out", left)
    if len(results) < len(options.mutants):
        summary.add_row("", Text("interrupted", style="yellow"))
    console.print(
        Panel(
            summary,
            title="squall mutants",
            title_align="left",
            border_style="red" if alarming else "green",
            padding=(1, 2),
        )
    )
