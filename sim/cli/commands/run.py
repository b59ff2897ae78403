"""``squall run``: an ordinary script on a simulated cluster."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.engine import begin, left_out, ready, tell_left_out
from squall.sim.cli.exits import INTERRUPTED, exit_code
from squall.sim.cli.options import (
    AllowUnchecked,
    Backend,
    CheckDeterminism,
    Compute,
    DeviceOfScript,
    Engine,
    FaultsOption,
    Json,
    Latency,
    Seed,
    Share,
    Simulate,
    WallLimit,
    Workers,
    seeds_option,
)
from squall.sim.cli.script import ScriptRun
from squall.sim.cli.streams import each_warning_once, stdout_to_stderr
from squall.sim.world.busy_loop import DEFAULT_LIMIT_S, limited
from squall.sim.world.garbage import no_collections
from squall.sim.world.latency import DEFAULT_LATENCY

if TYPE_CHECKING:
    from squall.model.events.run import Run
    from squall.sim.scenario import Scenario
    from squall.sim.world.watch import Divergence

RANK = 10
CONTEXT_SETTINGS = {"ignore_unknown_options": True}
EPILOG = """\
[bold]Examples[/bold]

squall run examples/parameter_server.py --workers 4 --seed 7

squall run train.py --latency uniform:0.001:0.005 --epochs 2

squall run train.py --seeds 0:100          (as squall fuzz train.py: up to the first seed that fails)

squall run train.py --json -- --seed 1     (after -- every option is the script's)

squall run --workers 4 train.py --rank {rank} --world-size {workers}

squall run ps.py --role server : trainer.py --id 1 : trainer.py --id 2     (a command line per rank)

squall run ranks.toml                      (the same from a file, see docs/scripts.md)
"""

#: what goes with --seeds, as with squall fuzz SCRIPT
_OF_A_SEARCH = (
    *("script", "args", "workers", "seeds", "engine", "faults", "json"),
    "allow_unchecked",
)


def run(
    context: typer.Context,
    script: Annotated[
        Path,
        typer.Argument(
            metavar="SCRIPT",
            help="A script written for stock PyTorch, or a .toml file that says what each rank runs.",
            show_default=False,
            parser=parsers.script_or_ranks,
        ),
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGS",
            help="What the script gets in sys.argv; {rank} and {workers} stand for the rank and the "
            "number of workers. After a : that stands alone, script and arguments of the next rank.",
        ),
    ] = None,
    workers: Workers = None,
    seed: Seed = 0,
    seeds: Annotated[
        range | None,
        seeds_option("one run", "What squall fuzz SCRIPT does with seeds A to B-1"),
    ] = None,
    latency: Latency = DEFAULT_LATENCY,
    device: DeviceOfScript = "cpu",
    engine: Engine = "port",
    faults: FaultsOption = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check", help="Compare every gradient with the single-process reference."
        ),
    ] = True,
    wall_limit: WallLimit = DEFAULT_LIMIT_S,
    simulate: Simulate = None,
    share: Share = None,
    compute: Compute = None,
    go_on: Annotated[
        bool,
        typer.Option(
            "--go-on",
            help="Let what is wrong in process groups do what it does on stock PyTorch (engine torch).",
        ),
    ] = False,
    backend: Backend = "gloo",
    replicas: Annotated[
        bool,
        typer.Option(
            "--replicas/--no-replicas",
            help="Compare what ranks have alike after each step of an optimizer (engine torch).",
        ),
    ] = True,
    explain_imports: Annotated[
        bool,
        typer.Option(
            "--explain-imports",
            help="Say which installed packages each process has executed for itself, and why.",
        ),
    ] = False,
    allow_unchecked: AllowUnchecked = False,
    check_determinism: CheckDeterminism = False,
    json: Json = False,
) -> None:
    """Run SCRIPT, unmodified, with every worker of it on a simulated network in virtual time.

    Exit code 4 if nothing of it could be checked: no gradient compared, no message sent.
    Options of squall may stand before or after SCRIPT; all others are passed on to it. A profile
    of faults needs --workers.
    """
    asked = ScriptRun(
        script=script,
        args=tuple(args or ()),
        workers=workers,
        seed=seed,
        latency=latency,
        device=device,
        engine=engine,
        faults=faults,
        check=check,
        wall_limit=wall_limit,
        simulate=tuple(simulate or ()),
        share=tuple(share or ()),
        compute=compute or "",
        go_on=go_on,
        backend=backend,
        replicas=replicas,
    )
    if seeds is not None:
        _refuse_beside_seeds(context)
        from squall.sim.cli.reports.fuzzed_script import fuzz_script

        fuzz_script(asked, seeds, as_json=json, allow_unchecked=allow_unchecked)
    with no_collections():
        scenario = asked.scenario()
        ready(engine)
        with stdout_to_stderr() if json else nullcontext():
            begin(scenario)
            asked, scenario = asked.measured(scenario)
        tell_left_out(engine, left_out(scenario))
        with limited(wall_limit):
            ran, divergence = _play(scenario, twice=check_determinism, json=json)
    # What looks at the run is imported when there is one: a script begins sooner.
    from squall.model.checks.registry import check as check_run
    from squall.model.events.run import NOT_CHECKED
    from squall.sim.cli.reports.divergence import print_second_run
    from squall.sim.cli.reports.script import print_report, run_json
    from squall.sim.library.run import Run as Told
    from squall.sim.scenarios.keeping import keep_script

    ran.violations = check_run(ran)
    kept = keep_script(scenario, ran, "\n".join(Told(scenario, ran).problems))
    if json:
        assert scenario.script is not None, "that is what was asked for"
        typer.echo(run_json(ran, asked, scenario.script, kept, divergence))
    else:
        print_report(ran, asked, Console(), kept, packages=explain_imports)
        if check_determinism:
            print_second_run(divergence, Console(highlight=False, soft_wrap=True))
    if ran.outcome == "interrupted":
        raise typer.Exit(INTERRUPTED)
    good = ran.outcome in ("ok", NOT_CHECKED) and divergence is None
    raise typer.Exit(exit_code(good=good, unchecked=ran.unchecked, allowed=allow_unchecked))


def _refuse_beside_seeds(context: typer.Context) -> None:
    """Raises :class:`BadInput` for what only one run has."""
    for option in context.command.params:
        name = str(option.name)
        source = context.get_parameter_source(name)
        if name not in _OF_A_SEARCH and source is not None and source.name == "COMMANDLINE":
            problem = (
                "is for one run, expected none with --seeds, which stands for squall fuzz SCRIPT"
            )
            raise BadInput(option.opts[0], str(context.params[name]), problem)


def _play(scenario: Scenario, *, twice: bool, json: bool) -> tuple[Run, Divergence | None]:
    """Run the script; ``twice``: once more, up to where the second run parts from the first."""
    from squall.sim.scenarios.play import play, play_twice

    stdout = sys.stderr if json else sys.stdout
    with stdout_to_stderr() if json else nullcontext(), each_warning_once():
        ran = (
            play_twice(scenario, stdout=stdout) if twice else (play(scenario, stdout=stdout), None)
        )
    sys.stdout.flush()
    return ran
