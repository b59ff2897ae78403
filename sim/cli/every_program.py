"""``squall explore --programs``: all programs of a small size, each in every order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.exits import FAILED, INTERRUPTED, UNCHECKED

if TYPE_CHECKING:
    from squall.sim.cli.parsers import Amount
    from squall.sim.world.controlled_time import Grain


def explore_programs(
    expression: str,
    grain: Grain,
    budget: Amount,
    *,
    ordered: bool,
    one_fault: bool,
    mutant: str | None,
    jobs: int,
    json: bool,
) -> NoReturn:
    """Explore all programs within the bounds that ``expression`` says, each for ``budget`` at most."""
    from squall.sim.explore.enumeration import BoundsError, read_bounds

    try:
        bounds = read_bounds(expression)
    except BoundsError as error:
        raise BadInput("--programs", expression, str(error)) from None
    from squall.sim.cli.reports.explore import ExploredScenario, keep
    from squall.sim.cli.reports.explored_programs import (
        Totals,
        outcome,
        print_programs,
        programs_json,
    )
    from squall.sim.explore.campaign import parts
    from squall.sim.explore.enumeration import scenarios
    from squall.sim.explore.execution import How
    from squall.sim.explore.search import Budget
    from squall.sim.search.replay_with_mutant import planted
    from squall.sim.world.controlled_time import GrainError

    chosen = scenarios(bounds)
    how, limits = How(grain, ordered), Budget(budget.executions, budget.seconds)
    totals, told = Totals(), []
    columns = "explore", BarColumn(), MofNCompleteColumn(), "programs, {task.fields[said]}"
    bar = Bar(*columns, TimeElapsedColumn(), total=len(chosen), said="")
    with bar, planted(mutant):
        try:
            for number, (text, scenario) in enumerate(chosen):
                bar.say(completed=number, said=f"{totals.executions:,} executions: {text}")
                explored = list(parts(scenario, how, limits, one_fault=one_fault, jobs=jobs))
                totals.add(text, explored)
                this = ExploredScenario(text, scenario, explored)
                if this.outcome != "ok":
                    told.append(this)
                for part in explored:
                    this.kept += keep(part, bar.warn)
                if this.interrupted:
                    break
        except GrainError as error:
            raise BadInput("--grain", how.grain, f"{error}: expected --grain task") from None
    if json:
        typer.echo(programs_json(expression, len(chosen), totals, told, how))
    else:
        to = Console(highlight=False, soft_wrap=True)
        print_programs(expression, len(chosen), totals, told, how, to)
    codes = {"ok": 0, "failed": FAILED, "interrupted": INTERRUPTED, "not exhausted": UNCHECKED}
    raise typer.Exit(codes[outcome(totals)])
