"""The options of the commands, each declared once: name, help, and what reads its text.

A command takes one by its type, ``seed: Seed = 0``, and gets a value that has been checked. Where
commands differ in a default they say, a function makes the option. What a single command has stands
in that command's module.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

import typer

from squall.sim.cli import parsers
from squall.sim.cli.faults import NamedFaults, read_faults
from squall.sim.names import (
    MAX_SEED,
    MAX_WORKERS,
    PLOTLY_FROM,
    PROFILES,
    BackendName,
    Device,
    EngineName,
    PlotlyFrom,
    Profile,
)

MAX_JOBS = 256
MAX_SECONDS = 24 * 3600.0


def seeds_option(default: str, about: str = "Scenarios A to B-1, one for each seed") -> Any:
    """``default``: what runs without it."""
    about = f"{about} (default: {default})."
    return typer.Option("--seeds", metavar="A:B|B", help=about, parser=parsers.seeds)


def seconds_option(about: str) -> Any:
    """``about``: what may take so long."""
    parser = parsers.positive("--seconds", MAX_SECONDS)
    return typer.Option("--seconds", metavar="S", help=about, parser=parser)


def output_option(about: str) -> Any:
    """``about``: what is written there."""
    parser = parsers.file_to_write("--output")
    return typer.Option("-o", "--output", metavar="FILE", help=about, parser=parser)


def file_option(name: str, about: str) -> Any:
    """A file to write; ``about``: what goes into it."""
    return typer.Option(name, metavar="FILE", help=about, parser=parsers.file_to_write(name))


def store_option(metavar: str, about: str, parser: Any) -> Any:
    """Where something is kept; ``parser`` is given the name of the option."""
    name = "--store"
    return typer.Option(name, metavar=metavar, help=about, parser=parser(name))


def merge_option(about: str) -> Any:
    """``about``: of what it makes one."""
    return typer.Option("--merge", help=about)


def resume_option(about: str, **more: Any) -> Any:
    """``more``: what makes it an option with a value; without, it is a flag."""
    return typer.Option("--resume", help=about, **more)


def _faults(metavar: str, about: str, parser: Any) -> Any:
    return typer.Option("--faults", metavar=metavar, help=about, parser=parser)


def _engine(more: str = "") -> Any:
    about = f"Which engine runs the workers{more}."
    return typer.Option("--engine", metavar="port|torch", help=about, parser=parsers.engine)


def _device(about: str) -> Any:
    return typer.Option("--device", metavar="cpu|cuda|stand-in", help=about, parser=parsers.device)


def _jobs(more: str = "") -> Any:
    parser = parsers.integer("--jobs", 1, MAX_JOBS)
    about = f"Processes that share the work{more}."
    return typer.Option("--jobs", metavar="J", help=about, parser=parser)


_SEED = typer.Option(
    "--seed",
    metavar="S",
    help="What every random choice is drawn from.",
    parser=parsers.integer("--seed", 0, MAX_SEED),
)
_LATENCY = typer.Option(
    "--latency",
    metavar="SPEC",
    help="Of each message, in seconds: 0, constant:D, uniform:LEAST:MOST, "
    "lognormal:MEDIAN:SIGMA or empirical:FILE (one a line).",
    parser=parsers.latency,
)
_AS_SAVED = " (default: what a scenario's file says, or {})"

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object; all else goes to stderr.")
]
AllowUnchecked = Annotated[
    bool,
    typer.Option(
        "--allow-unchecked",
        help="Exit code 0, not 4, for a run in which there was nothing to check.",
    ),
]
Plotly = Annotated[
    PlotlyFrom | None,
    typer.Option(
        "--plotly",
        metavar="inline|cdn|file",
        help="Where a page has plotly.js from, 4.7 MB: in itself (the default), from cdn.plot.ly, or "
        "from a file beside it, which several pages share.",
        parser=parsers.one_of("--plotly", PLOTLY_FROM),
    ),
]
AllowScripts = Annotated[
    bool,
    typer.Option(
        "--allow-scripts",
        help="Run the Python script of a scenario file that squall has not written itself, without "
        "asking.",
    ),
]
CoverOption = Annotated[
    bool,
    typer.Option(
        "--cover/--no-cover",
        help="First play the programs of the distilled cover, on schedules of their own: sooner where "
        "few seeds have been, not sooner at planted bugs (docs/search.md).",
    ),
]
CheckDeterminism = Annotated[
    bool,
    typer.Option(
        "--check-determinism",
        help="Run everything twice, and stop the second run where it parts from the first.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="World size: WORLD_SIZE in the script's environment.",
        parser=parsers.integer("--workers", 1, MAX_WORKERS),
    ),
]
WallLimit = Annotated[
    float,
    typer.Option(
        "--wall-limit",
        metavar="S",
        help="Seconds for which the script may compute without waiting for anything, and two and a half times as "
        "many of real time; 0: for ever.",
        parser=parsers.seconds("--wall-limit", MAX_SECONDS),
    ),
]
Simulate = Annotated[
    list[str] | None,
    typer.Option(
        "--simulate",
        metavar="PACKAGE",
        help="Let each process execute this installed package for itself (engine port).",
        parser=parsers.package("--simulate"),
    ),
]
Share = Annotated[
    list[str] | None,
    typer.Option(
        "--share",
        metavar="PACKAGE",
        help="Let all processes share this installed package, whatever it imports (engine port).",
        parser=parsers.package("--share"),
    ),
]
Compute = Annotated[
    str | None,
    typer.Option(
        "--compute",
        metavar="COSTS|FILE|measured",
        help="Virtual time that operators and modules take, such as linear=1ms,Net=5ms,20us (20us: every "
        "other operator), or a .json file that says it; measured: what they take in a run before this one "
        "(kept in the scenario).",
        parser=parsers.compute,
        show_default=False,
    ),
]
Mutant = Annotated[
    str | None,
    typer.Option(
        "--mutant",
        metavar="NAME",
        help="Plant this bug (squall mutants --list).",
        parser=parsers.mutant("--mutant"),
    ),
]
FaultsOption = Annotated[
    NamedFaults | None,
    _faults(
        "PROFILE|FILE",
        "What is to go wrong: mild (only what the protocol makes good), rough or storm, drawn from "
        "the seed; or a file with a fault plan.",
        read_faults,
    ),
]
#: a profile only
ProfileOption = Annotated[
    Profile | None,
    _faults(
        "|".join(PROFILES),
        "Faults of this profile (default: for bugs that need faults, of all in turn).",
        parsers.one_of("--faults", PROFILES),
    ),
]
OneFault = Annotated[
    str | None,
    _faults(
        "one",
        "Explore it once more with each message lost, doubled, late and not sent, and with each worker "
        "ending at any time, one fault at a time.",
        parsers.one_of("--faults", ("one",)),
    ),
]
Engine = Annotated[EngineName, _engine()]
Backend = Annotated[
    BackendName,
    typer.Option(
        "--backend",
        metavar="gloo|nccl|mpi",
        help="As on which backend operations of process groups wait for others, whatever the script asks for.",
        parser=parsers.one_of("--backend", get_args(BackendName)),
    ),
]
Jobs = Annotated[int, _jobs()]
#: None: 1, or as many as a machine has processors
JobsOfPlace = Annotated[
    int | None, _jobs(", with --on ray on each machine (default: 1, there one a processor)")
]
OneJobACore = Annotated[int | None, _jobs("; by default one a core")]
OnDevice = Annotated[Device, _device("Where all tensors live.")]
DeviceOfScript = Annotated[
    Device,
    _device(
        "Default device of the script. On stand-in its gradients are not compared with a reference, but the order of streams is checked."
    ),
]
Seed = Annotated[int, _SEED]
Latency = Annotated[str, _LATENCY]

ScenarioArgument = Annotated[
    str,
    typer.Argument(
        metavar="SEED|FILE",
        help="A seed of squall fuzz, a scenario file, the name of a stored failure, or a script or a "
        "test (FILE::TEST), whose last failure is meant.",
        show_default=False,
    ),
]
# None: as the scenario is
EngineOfScenario = Annotated[EngineName | None, _engine(_AS_SAVED.format("port"))]
DeviceOfScenario = Annotated[
    Device | None, _device(f"Where all tensors live{_AS_SAVED.format('cpu')}.")
]
# None: not given, for commands that take them for scripts alone
SeedOfScript = Annotated[int | None, _SEED]
LatencyOfScript = Annotated[str | None, _LATENCY]

Groups = Annotated[
    bool,
    typer.Option(
        "--groups",
        help="Random trainings over process groups instead (DistributedDataParallel, fully_shard, pipelines, collectives), on the "
        "engine torch, each compared with one process; their seeds are called groups:SEED elsewhere. Of planted bugs: "
        "those of process groups.",
    ),
]
