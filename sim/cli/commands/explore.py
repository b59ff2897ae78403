"""``squall explore``: every order of a small program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.progress import SpinnerColumn, TimeElapsedColumn

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.every_program import explore_programs
from squall.sim.cli.exits import FAILED, INTERRUPTED, UNCHECKED
from squall.sim.cli.options import (
    Jobs,
    Json,
    Mutant,
    OneFault,
    Share,
    Simulate,
    Workers,
    resume_option,
)
from squall.sim.cli.scenario import Changes, find_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from squall.sim.cli.reports.explore import ExploredScenario
    from squall.sim.cli.reports.group_orders import ToldOfGroups
    from squall.sim.explore.execution import How
    from squall.sim.explore.groups import GroupOrders
    from squall.sim.explore.search import Budget
    from squall.sim.explore.tree import Explored
    from squall.sim.scenario import Scenario
    from squall.sim.world.controlled_time import Grain

MAX_EXECUTIONS = 10**9
DEFAULT_EXECUTIONS = 20_000

RANK = 35
EPILOG = """\
[bold]Examples[/bold]

squall explore program.json                  (every order in which its messages can arrive)

squall explore 31 44 --grain task            (every order of tasks, of two programs of squall fuzz)

squall explore 44 --faults one               (and with each message lost, doubled, late, not sent)

squall explore 20 --budget 60s --json

squall explore --programs "workers<=3, calls<=2"      (all programs of that size)

squall explore train.py --workers 2 --grain task

squall explore pipeline.py --workers 4       (process groups: do sends that wait for each other end?)
"""


def explore(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SEED|FILE...",
            help="Seeds of squall fuzz, programs, scenario files, Python scripts, or names of "
            "stored failures.",
            show_default=False,
        ),
    ] = None,
    grain: Annotated[
        str | None,
        typer.Option(
            "--grain",
            metavar="message|task|fine",
            help="What is ordered: the arrivals of messages; or each run of a task, too; or also what "
            "tasks do between two scheduling points. By default messages, or tasks where a message lets "
            "several processes go on.",
            parser=parsers.one_of("--grain", ("message", "task", "fine")),
        ),
    ] = None,
    unordered: Annotated[
        bool,
        typer.Option(
            "--unordered",
            help="Let messages overtake others on their own connection, as no TensorPipe does.",
        ),
    ] = False,
    faults: OneFault = None,
    budget: Annotated[
        parsers.Amount,
        typer.Option(
            "--budget",
            metavar="N|Ss",
            help="Give up after N executions of a program, or after S seconds (60s).",
            parser=parsers.amount("--budget", MAX_EXECUTIONS),
            show_default=str(DEFAULT_EXECUTIONS),
        ),
    ] = parsers.Amount(executions=DEFAULT_EXECUTIONS),  # noqa: B008
    jobs: Jobs = 1,
    workers: Workers = None,
    simulate: Simulate = None,
    share: Share = None,
    programs: Annotated[
        str | None,
        typer.Option(
            "--programs",
            metavar="EXPRESSION",
            help="Explore all programs of a size instead: 'workers<=3, calls<=2'. The budget is that "
            "of each.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        resume_option(
            "Go on with what this file has of an exploration, if it is there, and write it down there "
            "if it is not over; of one scenario, without --faults.",
            metavar="FILE",
            parser=parsers.file_to_write("--resume"),
        ),
    ] = None,
    mutant: Mutant = None,
    json: Json = False,
) -> None:
    """Run a small program or script in every order that can make a difference, and check all properties.

    Exit code 1 if one does not hold in some execution, of which a scenario is kept; 4 if the
    budget was spent before all orders had been explored.
    """
    if programs is not None:
        if scenarios or resume is not None or workers is not None:
            problem = "expected no scenarios, no --resume and no --workers with it"
            raise BadInput("--programs", programs, problem)
        explore_programs(
            programs,
            cast("Grain", grain or "message"),
            budget,
            ordered=not unordered,
            one_fault=faults is not None,
            mutant=mutant,
            jobs=jobs,
            json=json,
        )
    if not scenarios:
        raise BadInput("SEED|FILE", "", "expected a scenario, or --programs")
    if resume is not None and (len(scenarios) > 1 or faults is not None):
        raise BadInput("--resume", str(resume), "expected one scenario, and no --faults, with it")
    of_script = {"workers": workers, "simulate": tuple(simulate or ()), "share": tuple(share or ())}
    given = {name: value for name, value in of_script.items() if value}
    found = [(text, _scenario(text, mutant, given)) for text in scenarios]
    read = [(text, scenario()) for text, scenario in found]
    from squall.sim.cli.reports.explore import explored_json, print_explored
    from squall.sim.explore.execution import How
    from squall.sim.explore.search import Budget

    how = How(cast("Grain", grain or "message"), not unordered)
    finer = How("task", not unordered) if grain is None else None
    since = None
    if resume is not None:
        how, since = _before(resume, read[0][1], how, finer)
    limits = Budget(budget.executions, budget.seconds)
    with _Display() as display:
        of_groups: list[ToldOfGroups] = []
        if resume is None and faults is None:
            of_groups, read = _of_groups(read, limits, display)
        how, told = _all(
            read,
            how,
            limits,
            finer=finer,
            one_fault=faults is not None,
            since=since,
            jobs=jobs,
            display=display,
        )
    if resume is not None and told:
        _write_down(resume, told[0], how)
    if json:
        typer.echo(explored_json(told, how, of_groups))
    else:
        print_explored(told, of_groups, how, Console(highlight=False, soft_wrap=True))
    every: list[ExploredScenario | ToldOfGroups] = [*told, *of_groups]
    if any(each.outcome == "interrupted" for each in every):
        raise typer.Exit(INTERRUPTED)
    if any(each.outcome == "failed" for each in every):
        raise typer.Exit(FAILED)
    raise typer.Exit(0 if all(each.exhausted for each in every) else UNCHECKED)


def _scenario(
    text: str, mutant: str | None, of_script: Mapping[str, Any]
) -> Callable[[], Scenario]:
    """What reads or draws a scenario that is there; ``of_script``: what is given for scripts. Both raise
    BadInput."""
    if text.endswith((".py", ".toml")):
        script = _script(text, mutant, of_script)
        return lambda: script
    for name, value in of_script.items():
        told = value if isinstance(value, int) else " ".join(value)
        raise BadInput(f"--{name}", str(told), f"is for a script, and {text!r} is none")
    found = find_scenario(text, Changes(mutant=mutant))
    return lambda: _explorable(text, found())


def _explorable(text: str, scenario: Scenario) -> Scenario:
    from squall.sim.explore.faults import check_explorable

    try:
        check_explorable(scenario.faults)
    except ValueError as error:
        raise BadInput("SEED|FILE", text, f"{text!r} cannot be explored: {error}") from None
    return scenario


def _script(text: str, mutant: str | None, of_script: Mapping[str, Any]) -> Scenario:
    from squall.sim.cli.script import ScriptRun
    from squall.sim.scenario import Expected

    asked = ScriptRun(script=parsers.script_or_ranks(text), **of_script)
    return replace(asked.scenario(), expected=Expected(mutant=mutant))


def _of_groups(
    read: list[tuple[str, Scenario]], budget: Budget, display: _Display
) -> tuple[list[ToldOfGroups], list[tuple[str, Scenario]]]:
    """What came of scripts whose ranks speak in process groups alone, and all others."""
    from squall.sim.cli.reports.group_orders import ToldOfGroups
    from squall.sim.explore.groups import explore_groups
    from squall.sim.world.controlled_time import NotExplorableError

    told, others = [], []
    for text, scenario in read:
        display.title = text
        try:
            orders = None
            if scenario.script is not None:
                orders = explore_groups(scenario, budget, display.show_runs)
        except NotExplorableError as error:
            raise BadInput("SEED|FILE", text, f"{text!r} cannot be explored: {error}") from None
        if orders is None:
            others.append((text, scenario))
        else:
            told.append(ToldOfGroups(text, orders))
    return told, others


def _before(
    file: Path, scenario: Scenario, how: How, finer: How | None
) -> tuple[How, Explored | None]:
    """How it was explored before, and what has been; None if nothing has."""
    from squall.sim.explore.counterexample import plain
    from squall.sim.explore.frontier import FrontierError, read_frontier

    try:
        return how, read_frontier(file, plain(scenario), how)
    except FileNotFoundError:
        return how, None
    except (OSError, FrontierError) as error:
        if finer is not None:
            return _before(file, scenario, finer, None)
        raise BadInput("--resume", str(file), f"cannot go on with {str(file)!r}: {error}") from None


def _write_down(file: Path, told: ExploredScenario, how: How) -> None:
    """Keep an exploration that is not over; one that is needs no file any more."""
    from squall.sim.explore.frontier import write_frontier

    (part,) = told.parts
    if part.explored.exhausted:
        file.unlink(missing_ok=True)
        return
    try:
        write_frontier(file, part.scenario, how, part.since)
    except OSError as error:
        problem = f"cannot write {str(file)!r}: {error.strerror}"
        raise BadInput("--resume", str(file), problem) from None


def _all(
    read: list[tuple[str, Scenario]],
    how: How,
    budget: Budget,
    *,
    finer: How | None,
    one_fault: bool,
    since: Explored | None,
    jobs: int,
    display: _Display,
) -> tuple[How, list[ExploredScenario]]:
    """Explore one after the other, up to an interrupt; all of them ``finer``, if it is given, once one needs it."""
    from squall.sim.cli.reports.explore import ExploredScenario, keep
    from squall.sim.explore.campaign import parts
    from squall.sim.search.replay_with_mutant import planted
    from squall.sim.world.controlled_time import GrainError, NotExplorableError

    told: list[ExploredScenario] = []
    for text, scenario in read:
        told.append(this := ExploredScenario(text, scenario))
        display.title = text
        with planted(scenario.expected.mutant):
            try:
                for part in parts(
                    scenario,
                    how,
                    budget,
                    one_fault=one_fault,
                    since=since,
                    jobs=jobs,
                    on_execution=display.show,
                ):
                    this.parts.append(part)
                    this.kept += keep(part, display.warn)
                    if part.explored.interrupted:
                        return how, told
            except GrainError as error:
                if finer is None:
                    problem = f"{error}, and a step of it is of one process alone: expected --grain task for {text!r}"
                    raise BadInput("--grain", how.grain, problem) from None
                display.warn(f"{text}: {error}, so tasks are ordered one by one (--grain task)")
            except NotExplorableError as error:
                raise BadInput("SEED|FILE", text, f"{text!r} cannot be explored: {error}") from None
            else:
                continue
        return _all(
            read,
            finer,
            budget,
            finer=None,
            one_fault=one_fault,
            since=None,
            jobs=jobs,
            display=display,
        )
    return how, told


class _Display(Bar):
    """What is explored."""

    def __init__(self) -> None:
        super().__init__(
            SpinnerColumn(),
            "explore {task.fields[title]}",
            "{task.completed:,} executions",
            "{task.fields[said]}",
            TimeElapsedColumn(),
            title="",
            said="",
        )
        self.title = ""

    def show(self, explored: Explored) -> None:
        said = f"{explored.per_second:,.0f}/s, about {explored.left:,.0f} left"
        if explored.failed:
            said += f", {explored.failed:,} failed"
        self._show(explored.executions + explored.elsewhere, said)

    def show_runs(self, orders: GroupOrders) -> None:
        self._show(orders.runs, "of the script")

    def _show(self, completed: int, said: str) -> None:
        if self.is_due:
            self.say(completed=completed, title=self.title, said=said)
