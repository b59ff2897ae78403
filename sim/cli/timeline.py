"""``squall timeline``: a run to look at, in a browser and in other tools."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from squall.sim.cli.input import BadInput, integer
from squall.sim.cli.pictured import Bar, World, picture_scenario, picture_script

if TYPE_CHECKING:
    from squall.sim.pictures.odds import Odds
    from squall.sim.pictures.recording import Recording

DEFAULT_FILE = "timeline.html"
INTERRUPTED = 130
MAX_POINTS, MAX_TIMES = 1000, 10_000

EPILOG = """\
[bold]Examples[/bold]

squall timeline 1234                        (writes timeline.html)

squall timeline 1234 --faults rough -o run.html

squall timeline .squall/scenarios/0a1b2c3d.json --odds

squall timeline examples/pipeline.py --workers 3 --perfetto pipeline.json

squall timeline 7 --dot joint.dot --parquet events.parquet --json
"""


def timeline(
    what: Annotated[
        str,
        typer.Argument(
            metavar="SEED|FILE|SCRIPT",
            help="A seed of squall fuzz, a scenario file, the name of a stored failure, or a "
            "Python script.",
            show_default=False,
        ),
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="What a script gets in sys.argv."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help=f"The page (default {DEFAULT_FILE}, unless another file is asked for).",
            show_default=False,
        ),
    ] = None,
    perfetto: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A trace for ui.perfetto.dev and chrome://tracing (JSON).",
            show_default=False,
        ),
    ] = None,
    dot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The joint autograd graph for Graphviz.", show_default=False
        ),
    ] = None,
    graphml: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The joint autograd graph as GraphML.", show_default=False
        ),
    ] = None,
    parquet: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The events as a Parquet table.", show_default=False),
    ] = None,
    csv: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The events as a CSV table.", show_default=False),
    ] = None,
    pass_number: Annotated[
        str | None,
        typer.Option(
            "--pass",
            metavar="N",
            help="Whose graph --dot and --graphml write (by default the largest).",
            show_default=False,
        ),
    ] = None,
    odds: Annotated[
        bool,
        typer.Option(
            "--odds",
            help="Also how likely the failure is from each point on: runs it over and over.",
        ),
    ] = False,
    points: Annotated[
        str, typer.Option(metavar="K", help="With --odds: points of the run to start from.")
    ] = "16",
    times: Annotated[
        str, typer.Option(metavar="N", help="With --odds: runs from each point.")
    ] = "10",
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE|PLAN",
            help="What draws a seed's faults, or a file with a fault plan.",
            show_default=False,
        ),
    ] = None,
    mutant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Plant this bug (squall mutants --list).", show_default=False
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="port|torch", help="Which engine runs the workers.", show_default=False
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="cpu|cuda", help="Where all tensors live.", show_default=False),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(metavar="N", help="Of a script: its world size.", show_default=False),
    ] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="S", help="Of a script: its seed.", show_default=False)
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Of a script: latency of messages.", show_default=False),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the run in the store, for squall serve.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a scenario and write its pictures into one page that opens without a network.

    Exit code 0 if everything was written, whatever came of the run: the page says that.
    """
    files = {"html": output, "perfetto": perfetto, "dot": dot, "graphml": graphml,
             "parquet": parquet, "csv": csv}  # fmt: skip
    if all(path is None for path in files.values()):
        files["html"] = DEFAULT_FILE
    world = World(faults, mutant, engine, device)
    wanted = {kind: _writable(kind, path) for kind, path in files.items() if path is not None}
    chosen = None if pass_number is None else integer("--pass", pass_number, 0, 1_000_000)
    spread = (integer("--points", points, 2, MAX_POINTS), integer("--times", times, 1, MAX_TIMES))
    script = _is_script(what)
    given = {"--workers": workers, "--seed": seed, "--latency": latency}
    if not script:
        for name, value in given.items():
            if value is not None:
                raise BadInput(name, value, f"is for a script, and {what!r} is none")
        if args:
            raise BadInput("ARGS", args[0], f"arguments are for a script, and {what!r} is none")
    else:
        for name, on in (("--odds", odds), ("--keep", keep)):
            if on:
                raise BadInput(name, "", "expected a seed or a scenario file, got a script")
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    with Bar(console) as bar:
        found: Odds | None = None
        if script:
            run = picture_script(what, args or [], given, world, bar)
        else:
            run, found = picture_scenario(what, world, odds, spread, keep, bar)
        _write(run, wanted, chosen, found, bar)
    _tell(run, wanted, found, json)
    if found is not None and found.interrupted:
        raise typer.Exit(INTERRUPTED)


def _is_script(what: str) -> bool:
    return Path(what).suffix == ".py"


def _writable(kind: str, path: str) -> Path:
    field = "--output" if kind == "html" else f"--{kind}"
    target = Path(path)
    if target.is_dir():
        raise BadInput(field, path, f"{path!r} is a directory, expected a file to write")
    if not target.parent.is_dir():
        raise BadInput(field, path, f"there is no directory {str(target.parent)!r} to write into")
    return target


def _write(
    run: Recording, wanted: dict[str, Path], chosen: int | None, found: Odds | None, bar: Bar
) -> None:
    writers: dict[str, Callable[[], str | bytes]] = {}

    def html() -> str:
        from squall.sim.pictures.page import page

        return page(run, found=found, on_view=lambda name: bar.say(f"drawing {name}"))

    def perfetto() -> str:
        from squall.sim.pictures.perfetto import perfetto_json

        return perfetto_json(run)

    def graph(kind: str) -> str:
        from squall.sim.pictures import export

        try:
            return export.dot(run, chosen) if kind == "dot" else export.graphml(run, chosen)
        except ValueError as error:
            field = f"--{kind}" if chosen is None else "--pass"
            raise BadInput(field, str(chosen or ""), str(error)) from None

    writers = {
        "html": html,
        "perfetto": perfetto,
        "dot": lambda: graph("dot"),
        "graphml": lambda: graph("graphml"),
    }
    for kind, path in wanted.items():
        bar.say(f"writing {path}")
        try:
            if kind in writers:
                path.write_text(str(writers[kind]()), encoding="utf-8")
            else:
                from squall.sim.pictures.events_frame import events_frame, write_csv, write_parquet

                frame = events_frame(run.records)
                (write_csv if kind == "csv" else write_parquet)(frame, path)
        except OSError as error:
            field = "--output" if kind == "html" else f"--{kind}"
            problem = f"cannot write {str(path)!r}: {error.strerror or error}"
            raise BadInput(field, str(path), problem) from None


def _tell(run: Recording, wanted: dict[str, Path], found: Odds | None, json: bool) -> None:
    if json:
        typer.echo(json_module.dumps(_json(run, wanted, found), allow_nan=False))
        return
    console = Console(highlight=False, soft_wrap=True)
    style = "bold green" if run.ok else "bold red"
    console.print(f"[{style}]{run.outcome}[/], {len(run):,} events, digest {run.digest}")
    for violation in run.violations:
        console.print(f"  {violation}", markup=False)
    for kind, path in wanted.items():
        size = path.stat().st_size / 1e6
        opens = " (open it in a browser)" if kind == "html" else ""
        console.print(f"{kind}: {path}, {size:.1f} MB{opens}", markup=False)
    if run.replay:
        console.print(f"again: {run.replay}", style="dim", markup=False)


def _json(run: Recording, wanted: dict[str, Path], found: Odds | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "outcome": run.outcome,
        "digest": run.digest,
        "events": len(run),
        "workers": len(run.workers),
        "virtual_time_s": run.ended_s,
        "violations": [violation.to_json() for violation in run.violations],
        "waits": list(run.waits),
        "replay": run.replay,
        "files": {kind: str(path) for kind, path in wanted.items()},
    }
    if found is not None:
        jump = found.jump
        told["odds"] = {
            "property": found.failure[0],
            "points": [point._asdict() for point in found.points],
            "jump": None if jump is None else [point.event for point in jump],
            "interrupted": found.interrupted,
        }
    return told
