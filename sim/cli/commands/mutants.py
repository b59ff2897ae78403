"""``squall mutants``: do the properties notice planted bugs?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.exits import FAILED, INTERRUPTED, exit_code
from squall.sim.cli.options import (
    AllowUnchecked,
    CoverOption,
    Groups,
    Jobs,
    Json,
    ProfileOption,
    seconds_option,
    seeds_option,
)
from squall.sim.names import MAX_SEED

if TYPE_CHECKING:
    from squall.sim.cli.reports.mutants import Asked
    from squall.sim.search.mutants.mutant import Mutant
    from squall.sim.search.mutants.result import Result

RANK = 60
EPILOG = """\
[bold]Examples[/bold]

squall mutants --list

squall mutants --jobs 2                (every mutant that should be noticed)

squall mutants dependency-not-counted --seeds 3:4

squall mutants --explore --json        (those that an order or one fault shows, in small worlds)

squall mutants --drawn 40 --seed 7     (changes of the engine that nobody chose)

squall mutants --groups                (those of process groups, with trainings)
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
    explored: Annotated[
        bool,
        typer.Option(
            "--explore",
            help="Explore small worlds for the shortest order that shows each, instead.",
        ),
    ] = False,
    groups: Groups = False,
    drawn: Annotated[
        int | None,
        typer.Option(
            "--drawn",
            metavar="N",
            help="N small changes of the engine that are drawn from its source, instead.",
            parser=parsers.integer("--drawn", 1, 1000),
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S",
            help="With --drawn: what they are drawn by (default: 0).",
            parser=parsers.integer("--seed", 0, MAX_SEED),
        ),
    ] = None,
    seconds: Annotated[float, seconds_option("Real seconds for each of them at most.")] = 60,
    jobs: Jobs = 1,
    seeds: Annotated[range | None, seeds_option("from 0 on")] = None,
    faults: ProfileOption = None,
    corpus: Annotated[
        bool,
        typer.Option("--corpus/--no-corpus", help="Play the stored scenarios, too, before it."),
    ] = True,
    cover: CoverOption = False,
    allow_unchecked: AllowUnchecked = False,
    json: Json = False,
) -> None:
    """Plant known bugs in the engine, one at a time, and see which property notices.

    Each is tried in a process of its own, with the scenarios of `squall fuzz`, until one fails.
    What the stored scenarios of the corpus notice is told apart. Seconds are those of one core.

    With --groups the bugs are those of process groups, and what is played are trainings over them. A NAME may be of
    either kind.

    With --drawn the bugs are small changes of the engine that nobody chose: what survives shows what the
    campaign is blind to, or makes no difference. None of them has to be noticed.

    With --explore small worlds are tried, the shortest orders first, each with one fault or
    without: for bugs that only an order or a fault brings out.
    """
    if seed is not None and drawn is None:
        problem = f"got {seed} without --drawn; --seeds names scenarios"
        raise BadInput("--seed", str(seed), problem)
    if explored:
        if seeds is not None or faults is not None or drawn is not None or groups:
            raise BadInput(
                "--explore",
                "",
                "expected no --seeds, --faults, --drawn and --groups with --explore",
            )
        _explore(names, seconds, jobs, json=json)
    if drawn is not None and (names or everything or groups):
        problem = "expected no NAME, no --all and no --groups with --drawn"
        raise BadInput("--drawn", str(drawn), problem)
    if groups and cover:
        raise BadInput("--cover", "", "expected no --cover with --groups; trainings have none")
    from squall.sim.cli.reports.mutants import (
        Asked,
        alarming,
        list_json,
        nothing_tried,
        print_list,
        print_results,
        results_json,
    )
    from squall.sim.search.mutants.drawn import drawn_mutants

    if drawn is not None:
        chosen, left_out = drawn_mutants(seed or 0, drawn), []
    else:
        known = _planted()
        of_kind = [mutant for mutant in known.values() if mutant.groups == groups]
        chosen = [known[name] for name in dict.fromkeys(names or ())] or [
            mutant for mutant in of_kind if everything or mutant.expected
        ]
        left_out = [] if names else [mutant for mutant in of_kind if mutant not in chosen]
    asked = Asked(
        mutants=tuple(chosen),
        left_out=tuple(left_out),
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


def _planted() -> dict[str, Mutant]:
    """By name. Raises BadInput where there are none."""
    from squall.sim.search.mutants.registry import ALL_MUTANTS, LISTED

    if not ALL_MUTANTS:
        raise BadInput("NAME", "", f"there are no planted bugs here; {LISTED}")
    return ALL_MUTANTS


def _explore(names: list[str] | None, seconds: float, jobs: int, *, json: bool) -> NoReturn:
    """Explore small worlds with each bug planted, with a line for each that is done."""
    from squall.sim.cli.reports.mutants_explored import (
        alarming,
        explored_json,
        explored_line,
        print_explored,
    )
    from squall.sim.search.mutants.exploring import Exploration, explorable, explore_mutants

    known = _planted()
    chosen = [known[name] for name in dict.fromkeys(names or ())]
    for mutant in chosen:
        if mutant.groups:
            problem = f"{mutant.name!r} is of process groups, and trainings are not explored"
            raise BadInput("NAME", mutant.name, problem)
    chosen = chosen or explorable(mutant for mutant in known.values() if not mutant.groups)
    progress = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    done = 0

    def on_result(result: Exploration) -> None:
        nonlocal done
        done += 1
        progress.print(f"[{done}/{len(chosen)}] {explored_line(result)}", markup=False)

    results = explore_mutants(chosen, seconds, jobs=jobs, on_result=on_result)
    if json:
        typer.echo(explored_json(results, len(chosen), seconds))
    else:
        print_explored(results, len(chosen), Console())
    if len(results) < len(chosen):
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILED if alarming(results) else 0)


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
        corpus=asked.corpus and asked.seeds is None,
        cover=asked.cover,
    )
    return run_mutants(asked.mutants, limits, jobs=asked.jobs, on_result=on_result)
