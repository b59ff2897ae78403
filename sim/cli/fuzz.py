"""``squall fuzz`` and ``squall properties``."""

from __future__ import annotations

import json as json_module
import math
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from squall.sim.cli.input import BadInput, device_name, engine_name, integer
from squall.sim.cli.native import ready_native
from squall.sim.cli.report import WIDTH
from squall.sim.faults.draw import Profile
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.scenario import MAX_SEED, Device, EngineName
from squall.sim.scenarios.keeping import Keeper

if TYPE_CHECKING:
    from squall.sim.scenarios.failure import Failure
    from squall.sim.search.campaign import Campaign
    from squall.sim.search.judge import Verdict

FAILED, INTERRUPTED = 1, 130
DEFAULT_SEEDS = "0:1000"
PROFILES: tuple[Profile, ...] = get_args(Profile)
MAX_JOBS = 256
MAX_MINUTES = 60 * 24 * 365
#: real seconds between two refreshes of the progress bar
_REFRESH_S = 0.25

EPILOG = """\
[bold]Examples[/bold]

squall fuzz                          (seeds 0 to 999)

squall fuzz --seeds 0:20000 --jobs 2 --stats

squall fuzz --minutes 60 --json

squall fuzz --seeds 0:5000 --faults storm --stats

squall fuzz --faults plan.json       (the same faults for every program)
"""


@dataclass(frozen=True, kw_only=True)
class FuzzOptions:
    """What ``squall fuzz`` was asked for, checked. Without ``minutes`` it ends with the seeds."""

    first: int
    last: int
    minutes: float | None
    jobs: int
    device: Device
    engine: EngineName
    #: a profile, or the file of a plan; empty for none
    faults: str = ""
    plan: Plan = NO_FAULTS

    @property
    def profile(self) -> Profile | None:
        return next((profile for profile in PROFILES if profile == self.faults), None)


def read_fuzz_options(
    *,
    seeds: str | None,
    minutes: str | None,
    jobs: str,
    device: str,
    engine: str,
    faults: str | None = None,
    require_sometimes: bool = False,
) -> FuzzOptions:
    """Raises :class:`BadInput` for the first thing that is wrong."""
    if seeds is not None and minutes is not None:
        raise BadInput("--minutes", minutes, "expected either --seeds or --minutes, got both")
    limit = None if minutes is None else _minutes(minutes)
    first, last = seed_range(DEFAULT_SEEDS if seeds is None else seeds)
    if require_sometimes and faults is None:
        raise BadInput("--require-sometimes", "", "expected --faults with it: see --help")
    return FuzzOptions(
        first=first,
        last=MAX_SEED if limit is not None else last,
        minutes=limit,
        jobs=integer("--jobs", jobs, 1, MAX_JOBS),
        engine=engine_name(engine),
        device=device_name(device),
        faults=faults or "",
        plan=_plan(faults),
    )


def _plan(text: str | None) -> Plan:
    """The plan in a file, or none for a profile."""
    if text is None or text in PROFILES:
        return NO_FAULTS
    from squall.sim.faults.file import load_plan

    path = Path(text)
    if not path.is_file():
        known = ", ".join(PROFILES)
        problem = f"expected {known} or the file of a fault plan, got {text!r}"
        raise BadInput("--faults", text, problem)
    try:
        return load_plan(path)
    except OSError as error:
        raise BadInput("--faults", text, f"cannot read {text!r}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput("--faults", text, f"{text}: {error}") from None


def seed_range(text: str) -> tuple[int, int]:
    """The first seed of ``A:B``, and the one behind the last."""
    parts = text.split(":")
    problem = f"expected two integers A:B with 0 <= A < B <= {MAX_SEED}, got {text!r}"
    try:
        first, last = (int(part) for part in parts)
    except ValueError:
        raise BadInput("--seeds", text, problem) from None
    if not 0 <= first < last <= MAX_SEED:
        raise BadInput("--seeds", text, problem)
    return first, last


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MAX_MINUTES:
        raise BadInput("--minutes", text, f"expected a positive number, got {text!r}")
    return value


def fuzz(
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="A:B",
            help=f"Scenarios A to B-1, one for each seed (default {DEFAULT_SEEDS}).",
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        str | None,
        typer.Option(
            metavar="M", help="Instead: scenarios from 0 on for M minutes.", show_default=False
        ),
    ] = None,
    jobs: Annotated[str, typer.Option(metavar="J", help="Processes that share the work.")] = "1",
    device: Annotated[
        str, typer.Option(metavar="cpu|cuda", help="Where all tensors live.")
    ] = "cpu",
    engine: Annotated[
        str, typer.Option(metavar="port|torch", help="Which engine runs the workers.")
    ] = "port",
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE|FILE",
            help="What is to go wrong: mild (only what the protocol makes good), rough or storm, "
            "drawn for each seed; or a file with a fault plan.",
            show_default=False,
        ),
    ] = None,
    stats: Annotated[
        bool,
        typer.Option(
            "--stats", help="Show how often features, faults and rare situations occurred."
        ),
    ] = False,
    require_sometimes: Annotated[
        bool,
        typer.Option("--require-sometimes", help="Fail if some rare situation was never reached."),
    ] = False,
    check_determinism: Annotated[
        bool,
        typer.Option(
            "--check-determinism",
            help="Run every scenario twice, and stop the second run where it parts from the first "
            "(without this, one scenario in 100).",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run random distributed autograd programs and check that all properties hold.

    The same seeds give the same verdicts in the same order, whatever --jobs says.
    """
    options = read_fuzz_options(
        seeds=seeds,
        minutes=minutes,
        jobs=jobs,
        device=device,
        engine=engine,
        faults=faults,
        require_sometimes=require_sometimes,
    )
    from squall.sim.search.campaign import run_campaign
    from squall.sim.search.draw import Settings

    if options.engine == "torch":
        ready_native(sys.stderr)
        for line in _left_out(options):
            typer.echo(f"squall: the engine torch leaves out {line}", err=True)
    with _Display(options) as display:
        campaign = run_campaign(
            range(options.first, options.last),
            Settings(
                options.profile,
                options.plan,
                options.engine,
                options.device,
                stats or json or require_sometimes,
                check_determinism,
            ),
            minutes=options.minutes,
            jobs=options.jobs,
            on_verdict=display.show,
        )
    if json:
        typer.echo(campaign_json(campaign, options))
    else:
        print_campaign(campaign, options, Console(), stats=stats)
    if campaign.interrupted:
        raise typer.Exit(INTERRUPTED)
    if require_sometimes and (never := never_reached(campaign)):
        sys.stderr.write(f"never reached: {'; '.join(never)}\n")
        raise typer.Exit(FAILED)
    raise typer.Exit(0 if campaign.ok else FAILED)


def never_reached(campaign: Campaign) -> list[str]:
    """The rare situations that no scenario of a campaign has reached."""
    return [name for name, count in campaign.sometimes_counts().items() if not count]


class _Display:
    """Progress on standard error: a bar on a terminal; failures, as they are found, always."""

    def __init__(self, options: FuzzOptions) -> None:
        # While a scenario runs, sys.stderr is another one.
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._options = options
        total = options.last - options.first if options.minutes is None else None
        self._progress = Progress(
            TextColumn("fuzz"),
            BarColumn(),
            MofNCompleteColumn() if total is not None else TextColumn("{task.completed:,}"),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            console=self._console,
            auto_refresh=False,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task("fuzz", total=total, speed="")
        self._shown = 0.0
        self._keeper = Keeper(lambda text: self._console.print(text, style="yellow", markup=False))

    def __enter__(self) -> _Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _keep(self, failure: Failure) -> None:
        kept = self._keeper.keep(
            failure.scenario, found_by=failure.found_by, text=str(failure.violation)
        )
        failure.file = None if kept is None else kept.file

    def show(self, verdict: Verdict, failure: Failure | None, campaign: Campaign) -> None:
        if failure is not None:
            self._keep(failure)  # first, so that what is printed is there
            self._console.print(_failure_line(failure, self._options), markup=False)
        now = time.monotonic()
        if now - self._shown >= _REFRESH_S:
            self._shown = now
            failed = f", {campaign.failed:,} failed" if campaign.failed else ""
            speed = f"{campaign.scenarios_per_second:,.1f}/s{failed}"
            self._progress.update(self._task, completed=campaign.scenarios, speed=speed)
            self._progress.refresh()


def _failure_line(failure: Failure, options: FuzzOptions) -> str:
    kept = "" if failure.file is None else f"\n  kept: {failure.file}"
    again = replay(failure, options)
    look = again.replace("squall replay", "squall timeline", 1)
    name = failure.scenario.note or f"seed {failure.seed}"
    return f"{name}: {failure.violation}\n  again: {again}\n  look: {look}{kept}"


def replay(failure: Failure, options: FuzzOptions) -> str:
    """A command line that shows the failure again."""
    if failure.scenario.note:
        return shlex.join(["squall", "replay", failure.scenario.note])
    words = ["squall", "replay", str(failure.seed)]
    if options.faults:
        words += ["--faults", options.faults]
    if options.device != "cpu":
        words += ["--device", options.device]
    if options.engine != "port":
        words += ["--engine", options.engine]
    return shlex.join(words)


def drawn(failure: Failure) -> list[tuple[str, str]]:
    """All that the failure's scenario has drawn, as names and values."""
    from squall.sim.search.draw import expanded

    return expanded(failure.scenario)


def _left_out(options: FuzzOptions) -> list[str]:
    """What of the faults the engine cannot do: items of the plan, or kinds of those drawn."""
    from squall.sim.scenarios.engines import ENGINES

    engine = ENGINES[options.engine]
    return engine.kinds_left_out() if options.profile else engine.left_out(options.plan)


def campaign_json(campaign: Campaign, options: FuzzOptions) -> str:
    """The object of ``squall fuzz --json``; its keys are in docs/json.md."""
    outcome = "ok" if campaign.ok else "failed"
    return json_module.dumps(
        {
            "outcome": "interrupted" if campaign.interrupted else outcome,
            "engine": options.engine,
            "device": options.device,
            "jobs": options.jobs,
            "first_seed": options.first,
            "scenarios": campaign.scenarios,
            "corpus": campaign.corpus,
            "failed": campaign.failed,
            "failures": [_failure_json(f, options) for f in campaign.failures.values()],
            "hangs": campaign.hangs,
            "events": campaign.events,
            "wall_time_s": campaign.seconds,
            "scenarios_per_second": campaign.scenarios_per_second,
            "features": campaign.feature_counts(),
            "profile": options.faults or None,
            "sometimes": campaign.sometimes_counts(),
            "faults": campaign.fault_counts(),
            "left_out": _left_out(options),
        },
        allow_nan=False,
    )


def _failure_json(failure: Failure, options: FuzzOptions) -> dict[str, Any]:
    return {
        "seed": failure.seed,
        **failure.violation.to_json(),
        "count": failure.count,
        "also": sorted({each.property for each in failure.also}),
        "replay": replay(failure, options),
        "file": failure.file,
        "drawn": dict(drawn(failure)),
    }


def print_campaign(
    campaign: Campaign, options: FuzzOptions, console: Console, *, stats: bool
) -> None:
    """Failures by what broke, the features if asked for, and a summary."""
    console = Console(file=console.file, width=min(WIDTH, console.width), highlight=False)
    for failure in campaign.failures.values():
        console.print(Text(_failure_line(failure, options), style="red"), soft_wrap=True)
        for other in failure.also[:3]:
            console.print(Text(f"  also: {other}", style="dim"), soft_wrap=True)
        console.print(Text(f"  first to break in {failure.count:,} scenarios"), soft_wrap=True)
        for name, value in drawn(failure):
            console.print(Text(f"    {name:14} {value}", style="dim"), soft_wrap=True)
    if campaign.scenarios == 1:
        for line in campaign.last_hang:
            console.print(Text(line, style="yellow"), soft_wrap=True)
    if stats:
        console.print(_counts("features of programs", campaign.feature_counts(), campaign))
        if options.faults:
            console.print(_counts("rare situations", campaign.sometimes_counts(), campaign))
            console.print(_faults(campaign))
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    style = "bold green" if campaign.ok else "bold red"
    scenarios = f"{campaign.scenarios:,} scenario{'' if campaign.scenarios == 1 else 's'}"
    verdict = f"{campaign.failed:,} of {scenarios} failed"
    if campaign.ok:
        verdict = f"{scenarios}, every property holds"
    table.add_row("outcome", Text(verdict, style=style))
    if campaign.interrupted:
        table.add_row("", Text("interrupted", style="yellow"))
    table.add_row("hangs", f"{campaign.hangs:,}, each predicted")
    speed = f"{campaign.scenarios_per_second:,.1f} scenarios a second, "
    table.add_row("speed", f"{speed}{campaign.events:,} events, {campaign.seconds:.1f} s")
    border = "green" if campaign.ok else "red"
    console.print(
        Panel(table, title="squall fuzz", title_align="left", border_style=border, padding=(1, 2))
    )


def _faults(campaign: Campaign) -> Table:
    table = Table(title="faults", title_justify="left", box=None, padding=(0, 2))
    table.add_column("kind")
    table.add_column("times", justify="right")
    for kind, count in campaign.fault_counts().items():
        table.add_row(kind, f"{count:,}", style="" if count else "bold red")
    return table


def _counts(title: str, counts: dict[str, int], campaign: Campaign) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2))
    table.add_column("what")
    table.add_column("scenarios", justify="right")
    table.add_column("", justify="right")
    for name, count in counts.items():
        share = f"{100 * count / campaign.scenarios:.1f} %" if campaign.scenarios else ""
        table.add_row(name, f"{count:,}", share, style="" if count else "bold red")
    return table


def properties(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List what must hold for every run."""
    from squall.model.checks.registry import PROPERTIES

    if json:
        listed = [{"name": p.name, "description": p.description} for p in PROPERTIES]
        typer.echo(json_module.dumps({"properties": listed}))
        return
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for property in PROPERTIES:
        table.add_row(property.name, Text(property.description.replace("``", "")))
    console.print(table)
