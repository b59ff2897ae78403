"""``squall fuzz``: a campaign of random programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

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
    from squall.sim.search.campaign import Campaign

DEFAULT_SEEDS = "0:1000"
MAX_MINUTES = 60 * 24 * 365

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
    from squall.sim.cli.reports.known import tell_known
    from squall.sim.cli.reports.playing import play

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
    campaign = play(asked, stats=stats or json or require_sometimes, twice=check_determinism)
    if not campaign.interrupted:
        tell_known(campaign)
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
