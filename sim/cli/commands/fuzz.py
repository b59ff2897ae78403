"""``squall fuzz``: a campaign of random programs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.engine import ready, tell_left_out
from squall.sim.cli.exits import FAILED, INTERRUPTED, exit_code
from squall.sim.cli.options import (
    AllowUnchecked,
    CheckDeterminism,
    Engine,
    FaultsOption,
    Jobs,
    Json,
    OnDevice,
    seeds_option,
)
from squall.sim.names import MAX_SEED

if TYPE_CHECKING:
    from squall.sim.cli.reports.campaign import Asked
    from squall.sim.scenarios.failure import Failure
    from squall.sim.search.campaign import Campaign
    from squall.sim.search.judge import Verdict

DEFAULT_SEEDS = "0:1000"
MAX_MINUTES = 60 * 24 * 365
#: real seconds between two refreshes of the progress bar
_REFRESH_S = 0.25

RANK = 30
EPILOG = """\
[bold]Examples[/bold]

squall fuzz                          (seeds 0 to 999)

squall fuzz --seeds 0:20000 --jobs 2 --stats

squall fuzz --minutes 60 --json

squall fuzz --seeds 0:5000 --faults storm --stats

squall fuzz --faults plan.json       (the same faults for every program)
"""


def fuzz(
    seeds: Annotated[range | None, seeds_option(DEFAULT_SEEDS)] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            metavar="M",
            help="Instead: scenarios from 0 on for M minutes.",
            parser=parsers.positive("--minutes", MAX_MINUTES),
        ),
    ] = None,
    jobs: Jobs = 1,
    device: OnDevice = "cpu",
    engine: Engine = "port",
    faults: FaultsOption = None,
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
    check_determinism: CheckDeterminism = False,
    allow_unchecked: AllowUnchecked = False,
    json: Json = False,
) -> None:
    """Run random distributed autograd programs and check that all properties hold.

    The same seeds give the same verdicts in the same order, whatever --jobs says. Without
    --check-determinism one scenario in 100 is run twice.
    """
    if seeds is not None and minutes is not None:
        raise BadInput(
            "--minutes", f"{minutes:g}", "expected either --seeds or --minutes, got both"
        )
    if require_sometimes and faults is None:
        raise BadInput("--require-sometimes", "", "expected --faults with it: see --help")
    from squall.sim.cli.reports.campaign import Asked, campaign_json, left_out, print_campaign

    if minutes is not None:
        seeds = range(MAX_SEED)
    asked = Asked(
        seeds=parsers.seeds(DEFAULT_SEEDS) if seeds is None else seeds,
        minutes=minutes,
        jobs=jobs,
        device=device,
        engine=engine,
        faults=faults,
    )
    ready(engine)
    tell_left_out(engine, left_out(asked))
    campaign = _play(asked, stats=stats or json or require_sometimes, twice=check_determinism)
    if json:
        typer.echo(campaign_json(campaign, asked))
    else:
        print_campaign(campaign, asked, Console(), stats=stats)
    if campaign.interrupted:
        raise typer.Exit(INTERRUPTED)
    if require_sometimes and (never := never_reached(campaign)):
        sys.stderr.write(f"never reached: {'; '.join(never)}\n")
        raise typer.Exit(FAILED)
    unchecked = campaign.unchecked
    raise typer.Exit(exit_code(good=campaign.ok, unchecked=unchecked, allowed=allow_unchecked))


def never_reached(campaign: Campaign) -> list[str]:
    """The rare situations that no scenario of a campaign has reached."""
    return [name for name, count in campaign.sometimes_counts().items() if not count]


def _play(asked: Asked, *, stats: bool, twice: bool) -> Campaign:
    from squall.sim.faults.plan import NO_FAULTS
    from squall.sim.search.campaign import run_campaign
    from squall.sim.search.draw import Settings

    faults = asked.faults
    profile, plan = (None, NO_FAULTS) if faults is None else (faults.profile, faults.plan)
    with _Display(asked) as display:
        return run_campaign(
            asked.seeds,
            Settings(profile, plan, asked.engine, asked.device, stats, twice),
            minutes=asked.minutes,
            jobs=asked.jobs,
            on_verdict=display.show,
        )


class _Display:
    """Progress on standard error: a bar on a terminal; failures, as they are found, always."""

    def __init__(self, asked: Asked) -> None:
        from squall.sim.cli.reports.campaign import failure_line
        from squall.sim.scenarios.keeping import Keeper

        # While a scenario runs, sys.stderr is another one.
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._asked = asked
        self._line = failure_line
        total = asked.seeds.stop - asked.seeds.start if asked.minutes is None else None
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
        kept = self._keeper.keep(failure.scenario, found_by=failure.found_by, text=failure.text)
        failure.file = "" if kept is None else kept.file

    def show(self, verdict: Verdict, failure: Failure | None, campaign: Campaign) -> None:
        if failure is not None:
            self._keep(failure)  # first, so that what is printed is there
            self._console.print(self._line(failure, self._asked), markup=False)
        now = time.monotonic()
        if now - self._shown >= _REFRESH_S:
            self._shown = now
            failed = f", {campaign.failed:,} failed" if campaign.failed else ""
            speed = f"{campaign.scenarios_per_second:,.1f}/s{failed}"
            self._progress.update(self._task, completed=campaign.scenarios, speed=speed)
            self._progress.refresh()
