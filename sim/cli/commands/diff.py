"""``squall diff``: the same scenarios on both engines."""

from __future__ import annotations

import json as json_module
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.engine import ready
from squall.sim.cli.exits import INTERRUPTED, exit_code
from squall.sim.cli.options import AllowUnchecked, Json, seeds_option
from squall.sim.cli.panels import WIDTH, print_panel, summary_table, unchecked_row, verdict
from squall.sim.cli.scenario import Changes, find_scenario
from squall.sim.names import NOT_ON_TORCH, runs_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from squall.sim.diff.compare import Comparison
    from squall.sim.diff.planted import Tally
    from squall.sim.scenario import Scenario

DEFAULT_SEEDS = "0:100"
#: disturbances of one scenario's results, which are compared in memory
PLANTED_EACH = 8

RANK = 50
EPILOG = """\
[bold]Examples[/bold]

squall diff                              (seeds 0 to 99)

squall diff --seeds 0:200 --json

squall diff --planted 2000               (are the rules too generous?)

squall diff properties/findings/sparse-then-dense/scenario.json
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
    seeds: Annotated[range | None, seeds_option(DEFAULT_SEEDS)] = None,
    allow_unchecked: AllowUnchecked = False,
    planted: Annotated[
        int | None,
        typer.Option(
            "--planted",
            metavar="N",
            min=1,
            help="Disturb results N times, one gradient, end, text, count or leftover at a time, "
            "and tell how many disturbances are noticed.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run scenarios on the port, on PyTorch's compiled engine and in one process, and compare.

    Differences that docs/divergences.md predicts are counted by their rule. Exit code 1 if there
    is one that no rule predicts; with --planted, if fewer than 99 % of the disturbances are
    noticed.
    """
    if scenarios and seeds is not None:
        given = f"{seeds.start}:{seeds.stop}"
        raise BadInput("--seeds", given, "expected either scenarios or --seeds, got both")
    if planted is not None and seeds is None and not scenarios:
        seeds = range(max(1, planted // PLANTED_EACH))
    wanted = list(_wanted(scenarios or [], seeds))
    ready("torch")
    if planted is not None:
        _plant(wanted, planted, json)
    found, interrupted = _compare_all(wanted)
    known = Counter(rule for comparison in found for rule in comparison.rules)
    unknown = [_unknown_json(comparison) for comparison in found if comparison.unknown]
    unchecked = _unchecked(found)
    if json:
        told = {
            "checked": unchecked is None,
            "unchecked": unchecked,
            "scenarios": len(found),
            "compared_in_part": sum(comparison.partly for comparison in found),
            "unknown_differences": unknown,
            "known_differences": dict(known.most_common()),
            "not_on_torch": _not_on_torch(),
            "interrupted": interrupted,
        }
        typer.echo(json_module.dumps(told))
    else:
        _print(found, known, Console(highlight=False))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(exit_code(good=not unknown, unchecked=unchecked, allowed=allow_unchecked))


def _not_on_torch() -> dict[str, str]:
    """What the port plays and the compiled engine cannot, with the reasons."""
    from squall.sim.diff.undefined import REASON
    from squall.sim.search.draw import PORT_ONLY
    from squall.sim.stock.plan import impossible

    return {**impossible(), **PORT_ONLY, **REASON}


def _unchecked(found: list[Comparison]) -> str | None:
    """Why nothing was compared; None if something was."""
    if any(each.messages or each.scenario.operations for each in found):
        return None
    return f"{len(found):,} scenarios with nothing in them to compare"


def _wanted(scenarios: list[str], seeds: range | None) -> Iterator[Scenario]:
    if scenarios:
        # As with --seeds: a seed is what the compiled engine can run of it. Scripts are refused here.
        changes = Changes(engine="torch")
        found = [(text, find_scenario(text, changes, scripts=True)) for text in scenarios]
        for text, read in found:
            scenario = read()
            if scenario.program is None:
                raise BadInput("SCENARIO", text, f"{text!r} is a script, expected a program")
            if not runs_on("torch", scenario.world.device):
                raise BadInput("SCENARIO", text, NOT_ON_TORCH.format(scenario.world.device))
            yield scenario
        return
    from squall.sim.search.corpus import corpus_for
    from squall.sim.search.draw import Settings, draw

    if seeds is None:  # as in campaigns, the corpus comes first
        yield from corpus_for(Settings(engine="torch"))
    for seed in parsers.seeds(DEFAULT_SEEDS) if seeds is None else seeds:
        yield draw(seed, Settings(engine="torch"))


def _compare_all(wanted: list[Scenario]) -> tuple[list[Comparison], bool]:
    from squall.sim.diff.compare import compare_engines
    from squall.sim.world import interrupts

    found: list[Comparison] = []

    def take(scenario: Scenario, left: int) -> None:
        comparison = compare_engines(scenario)
        interrupts.check()  # a run that has caught one shows nothing
        found.append(comparison)

    return found, _each(wanted, take)


def _each(wanted: list[Scenario], take: Callable[[Scenario, int], object]) -> bool:
    """Call ``take`` with every scenario, and with how many there are left, this one included.
    Whether somebody interrupted that."""
    from squall.sim.scenarios.settings import campaign_settings
    from squall.sim.stock.shared import close_fork_servers

    columns = "diff", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    bar = Bar(*columns, total=len(wanted), ticks=True)
    try:
        with bar, campaign_settings():
            for number, scenario in enumerate(wanted):
                take(scenario, len(wanted) - number)
                bar.say(advance=1)
    except KeyboardInterrupt:
        return True
    finally:
        close_fork_servers()
    return False


def _plant(wanted: list[Scenario], planted: int, json: bool) -> NoReturn:
    """Disturb the results of these scenarios ``planted`` times in all, and tell of it."""
    from squall.sim.diff.compare import compare_results, results_of
    from squall.sim.diff.planted import Tally, plant

    tally = Tally()
    unknown: list[int] = []

    def take(scenario: Scenario, left: int) -> None:
        results = results_of(scenario)
        if compare_results(results).unknown:
            unknown.append(scenario.seed)  # it could not be told from a disturbance
            return
        for each in plant(results, -(-(planted - tally.planted) // left)):
            tally.add(each)

    interrupted = _each(wanted, take)
    if json:
        told = {
            "scenarios": len(wanted),
            "planted": tally.planted,
            "noticed": tally.noticed,
            "share": tally.share,
            "by_kind": dict(tally.by_kind),
            "swallowed": [each.to_json() for each in tally.swallowed],
            "left_out": unknown,
            "interrupted": interrupted,
        }
        typer.echo(json_module.dumps(told))
    else:
        _print_planted(tally, unknown, Console(highlight=False))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(exit_code(good=tally.ok, unchecked=None, allowed=False))


def _print_planted(tally: Tally, unknown: list[int], console: Console) -> None:
    console = Console(file=console.file, width=min(WIDTH, console.width), highlight=False)
    for each in tally.swallowed:
        console.print(Text(str(each), style="yellow"), soft_wrap=True)
    table = summary_table()
    text = f"{tally.noticed:,} of {tally.planted:,} disturbances noticed, {tally.share:.1%}"
    table.add_row("outcome", verdict(text, good=tally.ok))
    for kind, count in tally.by_kind.most_common():
        table.add_row("planted", f"{count:,}  {kind}")
    for rule, count in Counter(each.rule for each in tally.swallowed).most_common():
        table.add_row("swallowed", f"{count:,}  {rule or 'no difference'}")
    if unknown:
        seeds = ", ".join(map(str, unknown))
        table.add_row("left out", f"seeds that differ in what no rule predicts: {seeds}")
    print_panel(console, table, "squall diff --planted", good=tally.ok)


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
    for what, why in _not_on_torch().items():
        console.print(Text(f"not on torch: {what}: {why}", style="dim"), soft_wrap=True)
    print_panel(console, _summary(found, known), "squall diff", good=not failed)


def _summary(found: list[Comparison], known: Counter[str]) -> Table:
    failed = sum(bool(comparison.unknown) for comparison in found)
    same = sum(not comparison.differences for comparison in found)
    table = summary_table()
    text = f"{failed:,} of {len(found):,} scenarios differ in what no rule predicts"
    table.add_row("outcome", verdict(text, good=not failed))
    unchecked_row(table, _unchecked(found))
    table.add_row("the same", f"{same:,}, to the last message")
    partly = sum(comparison.partly for comparison in found)
    if partly:
        table.add_row("in part", f"{partly:,}, up to a pass that failed")
    for rule, count in known.most_common():
        table.add_row("known" if count else "", f"{count:,}  {rule}")
    return table
