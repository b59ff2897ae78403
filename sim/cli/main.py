"""The command ``squall``.

Exit codes: 0 all is well; 1 the run found a failure; 2 bad input, with one line that says what
would be right; 3 a defect of squall itself; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from squall.sim.cli.diff import EPILOG as DIFF_EPILOG
from squall.sim.cli.diff import diff
from squall.sim.cli.failures import EPILOG as FAILURES_EPILOG
from squall.sim.cli.failures import failures
from squall.sim.cli.fuzz import EPILOG as FUZZ_EPILOG
from squall.sim.cli.fuzz import fuzz, properties
from squall.sim.cli.input import BadInput, read_run_options
from squall.sim.cli.mutants import EPILOG as MUTANTS_EPILOG
from squall.sim.cli.mutants import mutants
from squall.sim.cli.replay import EPILOG as REPLAY_EPILOG
from squall.sim.cli.replay import print_second_run, replay
from squall.sim.cli.report import bad_input_json, outcome_json, print_report, run_json
from squall.sim.cli.serve import EPILOG as SERVE_EPILOG
from squall.sim.cli.serve import serve
from squall.sim.cli.shrink import EPILOG as SHRINK_EPILOG
from squall.sim.cli.shrink import shrink
from squall.sim.cli.streams import each_warning_once, stdout_to_stderr
from squall.sim.cli.timeline import EPILOG as TIMELINE_EPILOG
from squall.sim.cli.timeline import timeline
from squall.sim.world.latency import DEFAULT_LATENCY
from squall.sim.world.watch import Recorder, watching

FAILED, BAD_INPUT, DEFECT, INTERRUPTED = 1, 2, 3, 130

RUN_EPILOG = """\
[bold]Examples[/bold]

squall run examples/parameter_server.py --workers 4 --seed 7

squall run train.py --latency uniform:0.001:0.005 --epochs 2

squall run train.py --json -- --seed 1     (after -- every option is the script's)
"""

CONFORMANCE_EPILOG = """\
[bold]Suites[/bold]

dist_autograd, dist_optimizer, faulty_agent, examples, rpc, tensorpipe_rpc

[bold]Examples[/bold]

squall conformance

squall conformance dist_autograd -k nested --jobs 1

squall conformance -k RpcTest.test_add --json
"""


class _InterruptedError(Exception):
    """Ctrl-C before a command could say anything, of which typer would make an exit code only."""


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _InterruptedError from None


app = typer.Typer(
    name="squall",
    cls=_Group,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def squall(
    ctx: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    """Run distributed autograd on a simulated cluster, and check what comes out."""
    if show_version:
        typer.echo(f"squall {_version()}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit


@app.command(context_settings={"ignore_unknown_options": True}, epilog=RUN_EPILOG)
def run(
    script: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT", help="A script written for stock PyTorch.", show_default=False
        ),
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="What the script gets in sys.argv."),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="World size: WORLD_SIZE in the script's environment.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        str, typer.Option(metavar="S", help="What every random choice is drawn from.")
    ] = "0",
    latency: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="Of each message, in seconds: 0, constant:D, uniform:LEAST:MOST, "
            "lognormal:MEDIAN:SIGMA or empirical:FILE (one a line).",
        ),
    ] = DEFAULT_LATENCY,
    device: Annotated[
        str, typer.Option(metavar="cpu|cuda", help="Default device of the script.")
    ] = "cpu",
    engine: Annotated[
        str, typer.Option(metavar="port|torch", help="Which engine runs the workers.")
    ] = "port",
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE|FILE",
            help="What is to go wrong: mild, rough or storm, drawn from the seed (with "
            "--workers), or a file with a fault plan.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object; what the script prints goes to stderr."
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check", help="Compare every gradient with the single-process reference."
        ),
    ] = True,
    check_determinism: Annotated[
        bool,
        typer.Option(
            "--check-determinism",
            help="Run it once more, and stop where the second run parts from the first.",
        ),
    ] = False,
) -> None:
    """Run SCRIPT, unmodified, with every worker of it on a simulated network in virtual time.

    Options of squall may stand before or after SCRIPT; all others are passed on to it.
    """
    options = read_run_options(
        script=script,
        args=tuple(args or ()),
        workers=workers,
        seed=seed,
        latency=latency,
        device=device,
        engine=engine,
        check=check,
        faults=faults,
    )
    from squall.model.checks.registry import check as check_run
    from squall.sim.cli.replay import left_out
    from squall.sim.cli.script import read_script_scenario
    from squall.sim.scenarios.engines import ENGINES
    from squall.sim.scenarios.keeping import keep_script
    from squall.sim.scenarios.replay import second_run

    scenario = read_script_scenario(options)
    if options.engine == "torch":
        from squall.sim.cli.native import ready_native

        ready_native(sys.stderr)
    for line in left_out(scenario):
        typer.echo(f"squall: the engine {options.engine} leaves out {line}", err=True)
    recorder = Recorder() if check_determinism else None
    divergence = None
    with stdout_to_stderr() if json else nullcontext(), each_warning_once():
        with nullcontext() if recorder is None else watching(recorder):
            ran = ENGINES[scenario.engine].run(scenario, stdout=sys.stderr if json else sys.stdout)
        if recorder is not None and ran.outcome != "interrupted":
            divergence = second_run(scenario, recorder)
    sys.stdout.flush()
    ran.violations = check_run(ran)
    kept = keep_script(scenario, ran)
    if json:
        typer.echo(run_json(ran, options, kept, divergence))
    else:
        print_report(ran, options, Console(), kept)
        if recorder is not None:
            print_second_run(divergence, Console(highlight=False, soft_wrap=True))
    if ran.outcome == "interrupted":
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if ran.ok and divergence is None else FAILED)


@app.command(epilog=CONFORMANCE_EPILOG)
def conformance(
    suites: Annotated[
        list[str] | None,
        typer.Argument(metavar="SUITE", help="Suites to run; all of them if none is named."),
    ] = None,
    pattern: Annotated[
        str, typer.Option("-k", metavar="PATTERN", help="Only tests with this in their name.")
    ] = "",
    engine: Annotated[
        str, typer.Option(metavar="port|torch", help="Which engine runs the workers.")
    ] = "port",
    jobs: Annotated[
        str | None,
        typer.Option(
            metavar="J", help="Tests at a time; by default one a core.", show_default=False
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")
    ] = False,
) -> None:
    """Run PyTorch's own tests of RPC and distributed autograd, unmodified, in the simulator."""
    from squall.sim.cli.conformance import print_conformance, read_options, run_conformance

    options = read_options(suites=suites or [], pattern=pattern, engine=engine, jobs=jobs)
    console = Console(stderr=json, highlight=False)
    outcome = run_conformance(options, console)
    if json:
        typer.echo(outcome.to_json())
    else:
        print_conformance(outcome, console)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if outcome.ok else FAILED)


app.command(epilog=FUZZ_EPILOG)(fuzz)
app.command()(properties)
app.command(epilog=DIFF_EPILOG)(diff)
app.command(epilog=MUTANTS_EPILOG)(mutants)
app.command(epilog=REPLAY_EPILOG)(replay)
app.command(epilog=SHRINK_EPILOG)(shrink)
app.command(epilog=FAILURES_EPILOG)(failures)
app.command(epilog=TIMELINE_EPILOG, context_settings={"ignore_unknown_options": True})(timeline)
app.command(epilog=SERVE_EPILOG)(serve)


def _version() -> str:
    try:
        return version("squall")
    except PackageNotFoundError:
        return "(not installed: make install)"


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the command. Never lets a traceback of squall's own out."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = app(args=words, prog_name="squall", standalone_mode=False)
    except BadInput as error:
        code = _bad_input(error, words)
    except typer.TyperException as error:
        code = _bad_input(_usage(error), words)
    except (KeyboardInterrupt, _InterruptedError, typer.Abort):
        _print_json(words, outcome_json("interrupted", "interrupted before there was a report"))
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left; keep Python from noticing again as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = FAILED
    except Exception as error:
        if os.environ.get("SQUALL_DEBUG"):
            raise
        problem = f"a defect of squall itself: {type(error).__name__}: {error}"
        _print_json(words, outcome_json("defect", problem))
        print(f"squall: {problem} (SQUALL_DEBUG=1 shows where)", file=sys.stderr)
        code = DEFECT
    sys.exit(code)


def _usage(error: typer.TyperException) -> BadInput:
    problem = error.format_message().rstrip(".")
    return BadInput("command line", "", f"{problem}; squall --help shows what there is")


def _print_json(words: list[str], text: str) -> None:
    ours = words[: words.index("--")] if "--" in words else words
    if "--json" in ours:
        print(text)


def _bad_input(error: BadInput, words: list[str]) -> int:
    _print_json(words, bad_input_json(error))
    print(f"squall: {error}", file=sys.stderr)
    return BAD_INPUT


if __name__ == "__main__":
    main()
