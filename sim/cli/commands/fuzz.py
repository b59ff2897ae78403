"""``squall fuzz``: a campaign of random programs, or of one script."""

from __future__ import annotations

import sys
from pathlib import Path
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
    CoverOption,
    Engine,
    FaultsOption,
    Groups,
    Jobs,
    Json,
    OnDevice,
    Workers,
    seeds_option,
)
from squall.sim.cli.scenario import named_seed
from squall.sim.cli.script import ScriptRun
from squall.sim.names import MAX_SEED

if TYPE_CHECKING:
    from squall.sim.cli.faults import NamedFaults
    from squall.sim.names import EngineName
    from squall.sim.search.campaign import Campaign

DEFAULT_SEEDS = "0:1000"
SEEDS_OF_SCRIPT = 100
MAX_MINUTES = 60 * 24 * 365
#: seeds that a cover is distilled from: what each has shown is kept in memory
MAX_DISTILLED = 100_000

RANK = 30
CONTEXT_SETTINGS = {"ignore_unknown_options": True}
EPILOG = """\
[bold]Examples[/bold]

squall fuzz                          (seeds 0 to 999)

squall fuzz --seeds 0:20000 --jobs 2 --stats

squall fuzz --minutes 60 --json

squall fuzz --seeds 0:5000 --faults storm --stats

squall fuzz --faults plan.json       (the same faults for every program)

squall fuzz --groups --seeds 0:200   (trainings; squall export groups:7 shows one)

squall fuzz train.py --workers 3 --faults rough --seeds 500     (one script, to its first failure)

squall fuzz --distil 3000            (what campaigns here play first)

squall fuzz --until-proven 712       (until it is believed that what seed 712 showed is mended)
"""


def fuzz(
    script: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCRIPT",
            help="Instead of random programs: a script, or a .toml file that says what each rank runs.",
            show_default=False,
            parser=parsers.script_or_ranks,
        ),
    ] = None,
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="What the script gets in sys.argv."),
    ] = None,
    workers: Workers = None,
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
    groups: Groups = False,
    device: OnDevice = "cpu",
    engine: Engine = "port",
    faults: FaultsOption = None,
    stats: Annotated[
        bool,
        typer.Option(
            "--stats",
            help="Show how often features, faults and rare situations occurred, and keep what was "
            "seen, for squall serve.",
        ),
    ] = False,
    require_sometimes: Annotated[
        bool,
        typer.Option("--require-sometimes", help="Fail if some rare situation was never reached."),
    ] = False,
    cover: CoverOption = False,
    distil: Annotated[
        int | None,
        typer.Option(
            "--distil",
            metavar="N",
            help="Instead: find the seeds below N whose programs show all that the others show, and "
            "keep them as the cover that campaigns in this folder play first with --cover.",
            parser=parsers.integer("--distil", 1, MAX_DISTILLED),
        ),
    ] = None,
    until_proven: Annotated[
        str | None,
        typer.Option(
            "--until-proven",
            metavar="SEED",
            help="Instead: replay this seed, whose failure was found before, and then play schedules "
            "of its program and fresh seeds until it would have shown again with a chance of 99.9 %.",
        ),
    ] = None,
    found: Annotated[
        parsers.Share | None,
        typer.Option(
            "--found",
            metavar="K:N",
            help="With --until-proven: the failure was found in K of N seeds (default: what campaigns "
            "in this folder have kept).",
            parser=parsers.share("--found"),
        ),
    ] = None,
    check_determinism: CheckDeterminism = False,
    allow_unchecked: AllowUnchecked = False,
    json: Json = False,
) -> None:
    """Run random distributed autograd programs and check that all properties hold.

    The same seeds give the same verdicts in the same order, whatever --jobs says. Without
    --check-determinism one scenario in 100 is run twice. A script is run for seeds 0 to 99, up to the
    first failure, which is made small, and of which is told what decided it; beside --seeds, --workers, --faults, --engine,
    --allow-unchecked and --json it takes no option.
    """
    if script is not None:
        _refuse(
            "SCRIPT",
            jobs=None if jobs == 1 else jobs,
            groups=groups,
            minutes=minutes,
            distil=distil,
            until_proven=until_proven,
            found=found,
            stats=stats,
            cover=cover,
            check_determinism=check_determinism,
        )
        asked_for = ScriptRun(
            script=script, args=tuple(args or ()), workers=workers, engine=engine, faults=faults
        )
        from squall.sim.cli.reports.fuzzed_script import fuzz_script

        fuzz_script(
            asked_for,
            seeds or range(SEEDS_OF_SCRIPT),
            as_json=json,
            allow_unchecked=allow_unchecked,
        )
    if workers is not None:
        raise BadInput("--workers", str(workers), "expected a script with it")
    if seeds is not None and minutes is not None:
        raise BadInput(
            "--minutes", f"{minutes:g}", "expected either --seeds or --minutes, got both"
        )
    if groups:
        engine = "torch"
        _refuse(
            "--groups",
            stats=stats,
            cover=cover,
            distil=distil,
            until_proven=until_proven,
            require_sometimes=require_sometimes,
        )
    parsers.device_of(engine, device)
    source = None
    if until_proven is not None:
        _check_proof(seeds, minutes, distil)
        source = named_seed(until_proven, "--until-proven")
    if distil is not None:
        _check_distil(seeds, minutes, engine, faults)
        seeds = range(distil)
    if found is not None and until_proven is None:
        raise BadInput("--found", str(found), "expected --until-proven with it")
    if require_sometimes and faults is None:
        raise BadInput("--require-sometimes", "", "expected --faults with it: see --help")
    from squall.sim.cli.reports.campaign import (
        Asked,
        campaign_json,
        left_out,
        print_campaign,
        tell_known,
    )
    from squall.sim.cli.reports.confidence import told_of
    from squall.sim.cli.reports.playing import play
    from squall.sim.cli.reports.proving import find_proof, prove
    from squall.sim.search.detection_probability import Sample

    if minutes is not None:
        seeds = range(MAX_SEED)
    asked = Asked(
        seeds=parsers.seeds(DEFAULT_SEEDS) if seeds is None else seeds,
        minutes=minutes,
        jobs=jobs,
        device=device,
        engine=engine,
        faults=faults,
        cover=cover,
        distil=distil is not None,
        keep_history=stats,
        groups=groups,
        title=_title(distil, until_proven),
    )
    proof = None
    if source is not None:
        proof = find_proof(source, asked, None if found is None else Sample(found.some, found.all))
    ready(engine)
    tell_left_out(engine, left_out(asked))
    settings = asked.settings._replace(
        stats=stats or json or require_sometimes, twice=check_determinism
    )
    if proof is None:
        campaign = play(asked, settings)
        told = told_of(campaign, asked.seeds, asked.settings)
    else:
        campaign, told = prove(proof, asked, settings)
    if not campaign.interrupted:
        tell_known(campaign)
    if json:
        typer.echo(campaign_json(campaign, asked, told))
    else:
        print_campaign(campaign, asked, Console(), stats=stats, told=told)
    if campaign.interrupted:
        raise typer.Exit(INTERRUPTED)
    if require_sometimes and (never := never_reached(campaign)):
        sys.stderr.write(f"never reached: {'; '.join(never)}\n")
        raise typer.Exit(FAILED)
    unchecked = campaign.unchecked
    raise typer.Exit(exit_code(good=campaign.ok, unchecked=unchecked, allowed=allow_unchecked))


def _refuse(beside: str, **given: object) -> None:
    """What is for random programs alone is not given beside it. Raises :class:`BadInput`."""
    for name, value in given.items():
        if value not in (None, False):
            option = f"--{name.replace('_', '-')}"
            problem = f"is for random programs, expected none with {beside}"
            raise BadInput(option, str(value), problem)


def never_reached(campaign: Campaign) -> list[str]:
    """The rare situations that no scenario of a campaign has reached."""
    return [name for name, count in campaign.sometimes_counts().items() if not count]


def _title(distil: int | None, until_proven: str | None) -> str:
    if until_proven is not None:
        return f"seed {until_proven}"
    return "fuzz" if distil is None else "distil"


def _check_proof(seeds: range | None, minutes: float | None, distil: int | None) -> None:
    """Raises BadInput for what says as well how long to play."""
    if seeds is not None:
        wrong, value = "--seeds", f"{seeds.start}:{seeds.stop}"
    elif minutes is not None:
        wrong, value = "--minutes", f"{minutes:g}"
    elif distil is not None:
        wrong, value = "--distil", str(distil)
    else:
        return
    problem = f"{value!r} does not go with --until-proven, which plays as much as it needs"
    raise BadInput(wrong, value, problem)


def _check_distil(
    seeds: range | None, minutes: float | None, engine: EngineName, faults: NamedFaults | None
) -> None:
    """Raises BadInput for what a cover is not made with."""
    if seeds is not None:
        wrong, value = "--seeds", f"{seeds.start}:{seeds.stop}"
    elif minutes is not None:
        wrong, value = "--minutes", f"{minutes:g}"
    elif engine != "port":
        wrong, value = "--engine", engine
    elif faults is not None and faults.profile is None:
        wrong, value = "--faults", faults.text
    else:
        return
    raise BadInput(wrong, value, f"{value!r} does not go with --distil, which says what is run")
