"""``squall mutants``: do the properties notice planted bugs?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from squall.sim.cli import parsers
from squall.sim.cli.exits import INTERRUPTED, exit_code
from squall.sim.cli.options import (
    AllowUnchecked,
    CoverOption,
    Jobs,
    Json,
    ProfileOption,
    seconds_option,
    seeds_option,
)

if TYPE_CHECKING:
    from squall.sim.cli.reports.mutants import Asked
    from squall.sim.search.mutants.result import Result

RANK = 60
EPILOG = """\
[bold]Examples[/bold]

squall mutants --list

squall mutants --jobs 2                (every mutant that should be noticed)

squall mutants dependency-not-counted --seeds 3:4
"""


def mutants(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Which ones (default: all that should be noticed).",
            parser=parsers.mutant("NAME"),
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="Only list them, and what is wrong with each.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that nothing brings out yet.")
    ] = False,
    seconds: Annotated[float, seconds_option("Real seconds for each of them at most.")] = 60,
    jobs: Jobs = 1,
    seeds: Annotated[range | None, seeds_option("from 0 on")] = None,
    faults: ProfileOption = None,
    corpus: Annotated[
        bool,
        typer.Option("--corpus/--no-corpus", help="Play the stored scenarios, too, before it."),
    ] = True,
    cover: CoverOption = True,
    allow_unchecked: AllowUnchecked = False,
    json: Json = False,
) -> None:
    """Plant known bugs in the engine, one at a time, and see which property notices.

    Each is tried in a process of its own, with the scenarios of `squall fuzz`, until one fails.
    What the stored scenarios of the corpus notice is told apart. Seconds are those of one core.
    """
    from squall.sim.cli.reports.mutants import (
        Asked,
        alarming,
        list_json,
        nothing_tried,
        print_list,
        print_results,
        results_json,
    )
    from squall.sim.search.mutants.families import MUTANTS

    chosen = [MUTANTS[name] for name in dict.fromkeys(names or ())] or [
        mutant for mutant in MUTANTS.values() if everything or mutant.expected
    ]
    asked = Asked(
        mutants=tuple(chosen),
        left_out=() if names else tuple(m for m in MUTANTS.values() if m not in chosen),
        seconds=seconds,
        jobs=jobs,
        seeds=seeds,
        profile=faults,
        corpus=corpus,
        cover=cover,
    )
    if show:
        listed = asked.mutants + asked.left_out
        typer.echo(list_json(listed)) if json else print_list(listed, Console())
        return
    results = _play(asked)
    if json:
        typer.echo(results_json(results, asked))
    else:
        print_results(results, asked, Console())
    if len(results) < len(asked.mutants):
        raise typer.Exit(INTERRUPTED)
    good = not alarming(results, asked)
    unchecked = nothing_tried(results)
    raise typer.Exit(exit_code(good=good, unchecked=unchecked, allowed=allow_unchecked))


def _play(asked: Asked) -> list[Result]:
    """Try them, with a line for each that is done; fewer than asked for if interrupted."""
    from squall.sim.cli.reports.mutants import result_line
    from squall.sim.search.mutants.campaign import run_mutants
    from squall.sim.search.mutants.trial import Limits

    progress = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    total = len(asked.mutants)
    done = 0

    def on_result(result: Result) -> None:
        nonlocal done
        done += 1
        progress.print(f"[{done}/{total}] {result_line(result)}", markup=False)

    limits = Limits(
        seconds=asked.seconds,
        seeds=asked.seeds,
        profile=asked.profile,
        corpus=asked.corpus,
        cover=asked.cover,
    )
    return run_mutants(asked.mutants, limits, jobs=asked.jobs, on_result=on_result)
