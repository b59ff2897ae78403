"""``squall timeline``: a run to look at, in a browser and in other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.exits import INTERRUPTED
from squall.sim.cli.options import (
    AllowScripts,
    Compute,
    DeviceOfScenario,
    EngineOfScenario,
    FaultsOption,
    Json,
    LatencyOfScript,
    Mutant,
    Plotly,
    SeedOfScript,
    Share,
    Simulate,
    Workers,
    output_option,
)
from squall.sim.cli.pictured import Spread, picture_scenario, picture_script
from squall.sim.cli.scenario import Changes, read_scenario
from squall.sim.cli.script import ScriptRun, is_script, refuse_for_scripts
from squall.sim.world.latency import DEFAULT_LATENCY

DEFAULT_FILE = "timeline.html"
#: what a file has, by how its name ends
_KINDS = {".html": "html", ".json": "perfetto", ".dot": "dot", ".graphml": "graphml",
          ".parquet": "parquet", ".csv": "csv"}  # fmt: skip
MAX_POINTS, MAX_TIMES = 1000, 10_000

RANK = 100
CONTEXT_SETTINGS = {"ignore_unknown_options": True}
EPILOG = """\
[bold]Examples[/bold]

squall timeline 204                         (writes timeline.html)

squall timeline 204 --faults rough -o run.html

squall timeline 204 --plotly file -o runs/204.html     (a small page, and plotly.js beside it)

squall timeline .squall/scenarios/0a1b2c3d.json --odds

squall timeline examples/pipeline.py --workers 3 -o pipeline.json

squall timeline 7 -o joint.dot -o events.parquet --json
"""


What = Annotated[
    str,
    typer.Argument(
        metavar="SEED|FILE|SCRIPT",
        help="A seed of squall fuzz, a scenario file, the name of a stored failure, or a Python "
        "script.",
        show_default=False,
    ),
]
Args = Annotated[
    list[str] | None, typer.Argument(metavar="ARGS", help="What a script gets in sys.argv.")
]
Output = Annotated[
    list[Path] | None,
    output_option(
        f"What to write, by how its name ends: the page (.html; {DEFAULT_FILE} by default), a trace for "
        "ui.perfetto.dev (.json), the joint autograd graph (.dot, .graphml), the events as a table "
        "(.parquet, .csv). May be given several times."
    ),
]
PassNumber = Annotated[
    int | None,
    typer.Option(
        "--pass",
        metavar="N",
        help="Whose graph .dot and .graphml have (by default the largest).",
        parser=parsers.integer("--pass", 0, 1_000_000),
    ),
]
WithOdds = Annotated[
    bool,
    typer.Option(
        "--odds", help="Also how likely the failure is from each point on: runs it over and over."
    ),
]
Points = Annotated[
    int,
    typer.Option(
        "--points",
        metavar="K",
        help="With --odds: points of the run to start from.",
        parser=parsers.integer("--points", 2, MAX_POINTS),
    ),
]
Times = Annotated[
    int,
    typer.Option(
        "--times",
        metavar="N",
        help="With --odds: runs from each point.",
        parser=parsers.integer("--times", 1, MAX_TIMES),
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the run in the store, for squall serve.")]


def timeline(
    what: What,
    args: Args = None,
    output: Output = None,
    pass_number: PassNumber = None,
    odds: WithOdds = False,
    points: Points = 16,
    times: Times = 10,
    faults: FaultsOption = None,
    mutant: Mutant = None,
    engine: EngineOfScenario = None,
    device: DeviceOfScenario = None,
    workers: Workers = None,
    seed: SeedOfScript = None,
    latency: LatencyOfScript = None,
    simulate: Simulate = None,
    share: Share = None,
    compute: Compute = None,
    keep: Keep = False,
    plotly: Plotly = None,
    allow_scripts: AllowScripts = False,
    json: Json = False,
) -> None:
    """Run a scenario and write its pictures into one page that opens without a network.

    --workers, --seed, --latency, --simulate, --share and --compute are for scripts. Exit code 0 if everything was written,
    whatever came of the run: the page says that.
    """
    wanted = _by_kind(output or [parsers.file_to_write("--output")(DEFAULT_FILE)])
    if plotly is not None and "html" not in wanted:
        raise BadInput(
            "--plotly", plotly, "is for a page, and none is asked for: add --output FILE.html"
        )
    for_a_script = {
        "--workers": workers,
        "--seed": seed,
        "--latency": latency,
        "--simulate": " ".join(simulate or ()) or None,
        "--share": " ".join(share or ()) or None,
        "--compute": compute,
    }
    changes = Changes(faults=faults, mutant=mutant, engine=engine, device=device)
    script, scenario = _script(what, {"--odds": odds, "--keep": keep}, mutant), None
    if script is None:
        refuse_for_scripts(what, for_a_script, args)
        field = "SEED|FILE|SCRIPT"
        scenario = read_scenario(what, changes, field=field, scripts=allow_scripts)
    from squall.sim.cli.reports.timeline import (
        Drawing,
        print_timeline,
        timeline_json,
        write_files,
    )

    columns = "{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Bar(*columns, ticks=True) as bar:
        if scenario is not None:
            spread = Spread(points, times) if odds else None
            run, found = picture_scenario(scenario, what, changes, bar, spread=spread, keep=keep)
        elif script is not None:
            asked = ScriptRun(
                script=script,
                args=tuple(args or ()),
                workers=workers,
                seed=seed or 0,
                latency=latency or DEFAULT_LATENCY,
                device=device or "cpu",
                engine=engine or "port",
                faults=faults,
                simulate=tuple(simulate or ()),
                share=tuple(share or ()),
                compute=compute or "",
            )
            run, found = picture_script(asked, bar), None
        write_files(run, wanted, Drawing(pass_number, found, plotly or "inline"), bar)
    if json:
        typer.echo(timeline_json(run, wanted, found))
    else:
        print_timeline(run, wanted)
    if found is not None and found.interrupted:
        raise typer.Exit(INTERRUPTED)


def _by_kind(files: list[Path]) -> dict[str, Path]:
    """What each file is to have. Raises :class:`BadInput` for a name that does not say it."""
    wanted: dict[str, Path] = {}
    for file in files:
        kind = _KINDS.get(file.suffix)
        if kind is None:
            problem = f"expected a name that ends in {', '.join(_KINDS)}, got {str(file)!r}"
            raise BadInput("--output", str(file), problem)
        if kind in wanted:
            raise BadInput("--output", str(file), f"expected one {file.suffix} file, got two")
        wanted[kind] = file
    return wanted


def _script(what: str, for_a_scenario: dict[str, bool], mutant: str | None) -> Path | None:
    """The script, or None for a scenario. Raises :class:`BadInput` for what scripts do not have."""
    if not is_script(what):
        return None
    for name, on in for_a_scenario.items():
        if on:
            raise BadInput(name, "", "expected a seed or a scenario file, got a script")
    if mutant is not None:
        problem = f"is for a seed or a scenario file, and {what!r} is a script"
        raise BadInput("--mutant", mutant, problem)
    return parsers.script_or_ranks(what)
