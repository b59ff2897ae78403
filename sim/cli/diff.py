"""``squall diff``: the same scenarios on both engines."""

from __future__ import annotations

import json as json_module
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from squall.sim.cli.fuzz import seed_range
from squall.sim.cli.input import BadInput
from squall.sim.cli.native import ready_native
from squall.sim.cli.report import WIDTH
from squall.sim.cli.scenario import read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from squall.sim.diff.compare import Comparison
    from squall.sim.scenario import Scenario

FAILED, INTERRUPTED = 1, 130
DEFAULT_SEEDS = "0:100"

EPILOG = """\
[bold]Examples[/bold]

squall diff                              (seeds 0 to 99)

squall diff --seeds 0:200 --json

squall diff properties/corpus/torch/gradient-stolen.json
"""


def diff(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SEED|FILE",
            help="Scenarios: a seed, or a file. Instead: --seeds.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="A:B",
            help=f"Scenarios A to B-1, one for each seed (default {DEFAULT_SEEDS}).",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")
    ] = False,
) -> None:
    """Run scenarios on the port, on PyTorch's compiled engine and in one process, and compare.

    Differences that docs/divergences.md explains are counted by their rule. Exit code 1 if there
    is one that no rule explains.
    """
    if scenarios and seeds is not None:
        raise BadInput("--seeds", seeds, "expected either scenarios or --seeds, got both")
    wanted = list(_wanted(scenarios or [], seeds))
    ready_native(sys.stderr)
    found, interrupted = _compare_all(wanted, Console(file=sys.stderr, highlight=False))
    known = Counter(rule for comparison in found for rule in comparison.rules)
    unknown = [_unknown_json(comparison) for comparison in found if comparison.unknown]
    if json:
        typer.echo(
            json_module.dumps(
                {
                    "scenarios": len(found),
                    "unknown_differences": unknown,
                    "known_differences": dict(known.most_common()),
                    "interrupted": interrupted,
                }
            )
        )
    else:
        _print(found, known, Console(highlight=False))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILED if unknown else 0)


def _wanted(scenarios: list[str], seeds: str | None) -> Iterator[Scenario]:
    from squall.sim.search.draw import Settings, draw

    if scenarios:
        for text in scenarios:
            scenario = read_scenario(text)
            if scenario.program is None:
                raise BadInput("SCENARIO", text, f"{text!r} is a script, expected a program")
            yield scenario
        return
    for seed in range(*seed_range(DEFAULT_SEEDS if seeds is None else seeds)):
        yield draw(seed, Settings(engine="torch"))


def _compare_all(wanted: list[Scenario], console: Console) -> tuple[list[Comparison], bool]:
    from squall.sim.diff.compare import compare_engines
    from squall.sim.scenarios.settings import campaign_settings
    from squall.sim.stock.shared import close_zygote

    found: list[Comparison] = []
    progress = Progress(
        TextColumn("diff"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    try:
        with progress, campaign_settings():
            task = progress.add_task("diff", total=len(wanted))
            for scenario in wanted:
                found.append(compare_engines(scenario))
                progress.advance(task)
    except KeyboardInterrupt:
        return found, True
    finally:
        close_zygote()
    return found, False


def _unknown_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "seed": comparison.scenario.seed,
        "first": comparison.unknown[0].to_json(),
        "differences": [each.to_json() for each in comparison.unknown],
    }


def _print(found: list[Comparison], known: Counter[str], console: Console) -> None:
    console = Console(file=console.file, width=min(WIDTH, console.width), highlight=False)
    failed = [comparison for comparison in found if comparison.unknown]
    for comparison in failed:
        text = f"seed {comparison.scenario.seed}: {comparison.unknown[0]}"
        console.print(Text(text, style="red"), soft_wrap=True)
        more = len(comparison.unknown) - 1
        if more:
            console.print(Text(f"  and {more} more", style="dim"))
    if len(found) == 1:
        for each in found[0].differences:
            if each.rule is not None:
                console.print(Text(f"{each.rule}: {each}", style="yellow"), soft_wrap=True)
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    same = sum(not comparison.differences for comparison in found)
    style = "bold red" if failed else "bold green"
    verdict = f"{len(failed):,} of {len(found):,} scenarios differ in what no rule explains"
    table.add_row("outcome", Text(verdict, style=style))
    table.add_row("the same", f"{same:,}, to the last message")
    for rule, count in known.most_common():
        table.add_row("known" if count else "", f"{count:,}  {rule}")
    border = "red" if failed else "green"
    console.print(
        Panel(table, title="squall diff", title_align="left", border_style=border, padding=(1, 2))
    )
