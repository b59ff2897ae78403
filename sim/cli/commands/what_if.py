"""``squall what-if``: where the time of a training step goes, on links and operators that take what one says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.engine import begin, left_out, ready, tell_left_out
from squall.sim.cli.exits import FAILED, INTERRUPTED
from squall.sim.cli.options import Backend, Compute, FaultsOption, Json, Plotly, Seed, output_option
from squall.sim.cli.script import ScriptRun
from squall.sim.cli.streams import each_warning_once, stdout_to_stderr
from squall.sim.names import MAX_WORKERS
from squall.sim.world.garbage import no_collections

if TYPE_CHECKING:
    from squall.model.events.run import Run
    from squall.sim.scenario import Scenario

RANK = 15
CONTEXT_SETTINGS = {"ignore_unknown_options": True}
EPILOG = """\
[bold]Examples[/bold]

squall what-if train.py --ranks 16 --link latency=5us,bandwidth=25e9 --compute costs.json

squall what-if train.py --ranks 8 --link latency=5us --link 2-3:latency=1ms       (one slow link)

squall what-if train.py --ranks 8 --link bandwidth=1e9 --algorithm all_reduce=tree

squall what-if examples/pipeline_1f1b.py --ranks 4 --compute Sequential=10ms,backward=20ms -o step.html
"""
#: links that take no time
_FREE = "latency=0"


def what_if(
    script: Annotated[
        Path,
        typer.Argument(
            metavar="SCRIPT",
            help="A script that torchrun could start, or a .toml file that says what each rank runs.",
            show_default=False,
            parser=parsers.script_or_ranks,
        ),
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="What the script gets in sys.argv."),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks",
            metavar="N",
            help="World size: WORLD_SIZE in the script's environment.",
            parser=parsers.integer("--ranks", 1, MAX_WORKERS),
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            "--link",
            metavar="COST",
            help="What a message takes: latency=5us,bandwidth=25e9 (bytes a second) on every link, "
            "2-3:latency=1ms between two ranks. May be given several times; a link of which nothing is said takes "
            "no time.",
            parser=parsers.link,
        ),
    ] = None,
    compute: Compute = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm",
            metavar="COLLECTIVE=NAME",
            help="By which steps a collective goes, such as all_reduce=tree (default: as the backend does).",
            parser=parsers.algorithm,
        ),
    ] = None,
    backend: Backend = "gloo",
    faults: FaultsOption = None,
    seed: Seed = 0,
    step: Annotated[
        int | None,
        typer.Option(
            "--step",
            metavar="N",
            help="Which step to tell of, from 1 on (default: the last one).",
            parser=parsers.integer("--step", 1, 1_000_000),
        ),
    ] = None,
    output: Annotated[
        Path | None, output_option("A page with a picture of the step, a row for each rank.")
    ] = None,
    plotly: Plotly = None,
    json: Json = False,
) -> None:
    """Tell where the virtual time of a training step goes: what each rank computes, which collectives and messages it
    waits for, and for whom.

    A step goes from one step of the optimizer to the next. SCRIPT runs on PyTorch's engine; operators take what
    --compute says, links what --link says, and all else no time. See docs/what-if.md. Exit code 1 if the script fails.
    """
    if plotly is not None and output is None:
        problem = "is for a page, and none is asked for: add --output FILE"
        raise BadInput("--plotly", plotly, problem)
    asked = ScriptRun(
        script=script,
        args=tuple(args or ()),
        workers=ranks,
        seed=seed,
        latency="0",
        engine="torch",
        faults=faults,
        check=False,
        compute=compute or "",
        backend=backend,
        replicas=False,
        links=_links(link or []),
        algorithms=_algorithms(algorithm or []),
    )
    console = Console(file=sys.stderr if json else sys.stdout, highlight=False, soft_wrap=True)
    with no_collections():
        scenario = asked.scenario()
        ready("torch")
        with stdout_to_stderr():
            begin(scenario)
            asked, scenario = asked.measured(scenario)
        tell_left_out("torch", left_out(scenario))
        run = _play(scenario)
    from squall.model.events.group_time import GroupTime
    from squall.sim.cli.reports.what_if import print_report, report_json, write_page

    if run.outcome != "ok":
        from squall.sim.cli.reports.script import print_report as print_failure

        print_failure(run, asked, console, None)
        raise typer.Exit(INTERRUPTED if run.outcome == "interrupted" else FAILED)
    found = GroupTime(run)
    if not found.steps:
        problem = "no rank took part in a process group or spent time: there is no step to tell of"
        raise BadInput("SCRIPT", str(script), problem)
    steps = {each.number: each for each in found.steps}
    if step is not None and step not in steps:
        problem = f"an optimizer made {len(steps)} steps in it, expected 1 to {len(steps)}"
        if 0 in steps:
            problem = "no optimizer made a step in it, expected none: all of the run is told"
        raise BadInput("--step", str(step), problem)
    chosen = steps[max(steps) if step is None else step]
    if output is not None:
        write_page(found, chosen, str(script), output, plotly or "inline")
    if json:
        typer.echo(report_json(found, chosen, asked))
    else:
        print_report(found, chosen, asked, console, output)


def _links(given: list[str]) -> str:
    """Raises :class:`BadInput` for what does not go together."""
    text = ";".join(given) or _FREE
    from squall.sim.world.links import parse_links

    try:
        parse_links(text)
    except ValueError as error:
        raise BadInput("--link", text, str(error)) from None
    return text


def _algorithms(given: list[str]) -> str:
    """Raises :class:`BadInput` for what does not go together."""
    return parsers.algorithm(",".join(given)) if given else ""


def _play(scenario: Scenario) -> Run:
    """What the script prints goes to standard error."""
    from squall.model.checks.registry import check
    from squall.sim.scenarios.play import play

    with stdout_to_stderr(), each_warning_once():
        run = play(scenario, stdout=sys.stderr)
    run.violations = check(run)
    return run
