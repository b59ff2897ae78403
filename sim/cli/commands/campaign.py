"""``squall campaign``: many seeds, kept in a file from which it goes on after any kill."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from squall.sim.cli import parsers
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.campaign_export import export_store
from squall.sim.cli.campaign_place import (
    INDEX_VARIABLE,
    OF_VARIABLE,
    On,
    RayAddress,
    Where,
    WorkerMemory,
)
from squall.sim.cli.engine import ready
from squall.sim.cli.options import (
    Engine,
    JobsOfPlace,
    Json,
    ProfileOption,
    merge_option,
    resume_option,
    seeds_option,
    store_option,
)

if TYPE_CHECKING:
    from squall.sim.campaigns.address import Address
    from squall.sim.campaigns.driver import Look
    from squall.sim.campaigns.plan import Plan
    from squall.sim.names import EngineName, Profile

DEFAULT_SEEDS = "0:1000"
#: shares that a campaign is cut into at most
MAX_SHARES = 100_000
#: seeds that a process is given at most: their verdicts are in memory until all are there
MAX_LEASE = 10_000

RANK = 31
EPILOG = """\
[bold]Examples[/bold]

squall campaign --seeds 0:1000000 --faults rough --jobs 2 --store night.sqlite

squall campaign --seeds 0:1000000 --faults rough --jobs 2 --store night.sqlite --resume

squall campaign campaign.toml --jobs 2                 (parts with shares: docs/campaigns.md)

squall campaign campaign.toml --index 3/8         (on one of eight machines)

squall campaign campaign.toml --index 3/8 --store postgresql://squall@db.example/night

squall campaign campaign.toml --on index               (the share that JOB_COMPLETION_INDEX says)

squall campaign campaign.toml --on ray --ray-address 10.0.0.1:6379

squall campaign --merge campaign.*.sqlite --store all.sqlite

squall campaign --export night --store night.sqlite    (Parquet, for DuckDB or pandas)
"""


class ShareOf(NamedTuple):
    """One of several shares, from 0 on, and how many there are."""

    number: int
    of: int


def _share(text: str, names: tuple[str, str] = ("--index", "--index")) -> ShareOf:
    """Of a text as 3/8. Raises BadInput, with ``names`` for the two numbers."""
    first, slash, last = text.partition("/")
    if not slash:
        raise BadInput(names[0], text, f"expected I/N, such as 0/2, got {text!r}")
    index = parsers.integer(names[0], 0, MAX_SHARES - 1)(first)
    of = parsers.integer(names[1], 1, MAX_SHARES)(last)
    if index >= of:
        raise BadInput(names[0], first, f"expected an index from 0 to {of - 1}, got {index}")
    return ShareOf(index, of)


def _share_of_pod() -> ShareOf | None:
    """What the environment says; the index alone is told to every pod of any indexed Job. Raises BadInput."""
    index, of = os.environ.get(INDEX_VARIABLE), os.environ.get(OF_VARIABLE)
    if of is None:
        return None
    if index is None:
        raise BadInput(OF_VARIABLE, of, f"expected {INDEX_VARIABLE} with it")
    return _share(f"{index}/{of}", (INDEX_VARIABLE, OF_VARIABLE))


def campaign(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="A campaign.toml with parts; with --merge the stores of shares.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[range | None, seeds_option(DEFAULT_SEEDS)] = None,
    faults: ProfileOption = None,
    engine: Engine = "port",
    jobs: JobsOfPlace = None,
    on: On = None,
    ray_address: RayAddress = None,
    worker_memory: WorkerMemory = None,
    store: Annotated[
        str | None,
        store_option(
            "FILE|URL",
            "Where it is kept: a file, or postgresql://USER@HOST/DATABASE, into which the drivers "
            "of all shares may write (default: campaign.sqlite; of a share, campaign.I.sqlite).",
            parsers.store_of_campaign,
        ),
    ] = None,
    resume: Annotated[
        bool,
        resume_option(
            "Go on with what the store has of this campaign, or begin if it has nothing."
        ),
    ] = False,
    index: Annotated[
        ShareOf | None,
        typer.Option(
            "--index",
            metavar="I/N",
            help=f"Play share I of N, from 0 on (default: what {INDEX_VARIABLE} and {OF_VARIABLE} say).",
            parser=_share,
        ),
    ] = None,
    lease: Annotated[
        int,
        typer.Option(
            "--lease",
            metavar="K",
            help="Seeds that a process judges before it ends.",
            parser=parsers.integer("--lease", 1, MAX_LEASE),
        ),
    ] = 200,
    merge: Annotated[bool, merge_option("Instead: put the stores of shares together.")] = False,
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink/--no-shrink",
            help="Make the first scenario of each kind of failure small, for a minute each.",
        ),
    ] = True,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="DIR",
            help="Instead: write what the store has as Parquet into a new folder.",
            parser=parsers.folder_to_make("--export"),
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Judge many seeds, some at a time in a process of their own, and keep all that is judged.

    The verdicts do not depend on --jobs and --on, on kills, or on how often it is resumed.
    """
    from squall.sim.campaigns.address import Address, CampaignStoreError
    from squall.sim.campaigns.place import PlaceError

    named = files or []
    played: list[tuple[str, object]] = [("--seeds", seeds), ("--faults", faults)]
    played.append(("--engine", None if engine == "port" else engine))
    try:
        if export is not None:
            given = [("FILE", files), ("--merge", merge or None), ("--resume", resume or None)]
            _check_alone("--export", [*given, *played, ("--index", index)])
            export_store(Address.read(store or "campaign.sqlite"), export, json=json)
            return
        if merge:
            if not named:
                raise BadInput("FILE", "", "expected the stores that are to be merged")
            _check_alone("--merge", [*played, ("--index", index)])
            into = Address.read(store or "campaign.sqlite")
            interrupted = _merge(named, into, resume, json)
        else:
            number, of = index or _share_of_pod() or (0, 1)
            name = "campaign.sqlite" if of == 1 else f"campaign.{number}.sqlite"
            where = Where(on, ray_address, jobs, worker_memory)
            where.check(share=of > 1)
            plan = _plan(named, seeds, faults, engine, played)
            plan = replace(plan, size=lease, index=number, of=of)
            interrupted = _play(plan, Address.read(store or name), where, resume, shrink, json)
    except CampaignStoreError as error:
        shown = "" if store is None else str(Address.read(store))
        raise BadInput("FILE" if merge else "--store", shown, str(error)) from None
    except PlaceError as error:
        problem = f"{error}; what is judged is kept, --resume goes on"
        raise BadInput("--on", on or "pool", problem) from None
    raise typer.Exit(interrupted)


def _play(
    plan: Plan, address: Address, where: Where, resume: bool, shrink: bool, json: bool
) -> int:
    from squall.sim.campaigns.address import CampaignStoreError
    from squall.sim.campaigns.driver import drive
    from squall.sim.campaigns.store import CampaignStore
    from squall.sim.cli.reports.kept_campaign import Telling, report
    from squall.sim.cli.reports.triaging import Triaging

    for engine in dict.fromkeys(each for part in plan.parts for each in part.engines):
        ready(engine)
    place = where.place()
    store = CampaignStore(address, plan.said(), resume=resume, tell=lambda line: telling.loss(line))
    interrupted = False
    telling = Telling(plan, store, where.jobs or 1, where.name(share=plan.of > 1))
    triaging = Triaging(store, telling.files, telling.console, shrink)
    telling.back = triaging.back

    def look(seen: Look) -> None:
        telling.look(seen)
        if shrink:
            triaging.beside()

    try:
        with telling:
            drive(plan, store, place, on_lease=telling.lease, on_look=look, on_loss=telling.loss)
        triaging.finish(telling.jobs)
    except KeyboardInterrupt:
        interrupted = True
        store.patience_s = 0.0  # whoever interrupts does not wait for a server that is away
    finally:
        triaging.close()
    try:
        return report(telling, json=json, interrupted=interrupted)
    except CampaignStoreError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise


def _merge(files: list[Path], into: Address, resume: bool, json: bool) -> int:
    from squall.sim.campaigns.store import merge

    store, plan = merge(files, into, resume=resume)
    from squall.sim.cli.reports.kept_campaign import Telling, report

    with Telling(plan, store, jobs=1, on=None) as telling:
        pass
    return report(telling, json=json, interrupted=False)


def _plan(
    files: list[Path],
    seeds: range | None,
    faults: Profile | None,
    engine: EngineName,
    given: list[tuple[str, object]],
) -> Plan:
    """What a file or the options describe. Raises BadInput."""
    if not files:
        from squall.sim.campaigns.plan import MOST, Plan

        wanted = parsers.seeds(DEFAULT_SEEDS) if seeds is None else seeds
        if wanted.stop > MOST:
            text = f"{wanted.start}:{wanted.stop}"
            raise BadInput("--seeds", text, f"expected seeds up to {MOST}, got {text!r}")
        from squall.sim.campaigns.parts import Part

        return Plan((Part(faults or "plain", wanted, faults, engine),))
    file, *more = files
    if more:
        raise BadInput("FILE", str(more[0]), f"expected one campaign.toml, got {more[0]} as well")
    for name, value in given:
        if value is not None:
            problem = f"does not go with {file}, which says what is played"
            raise BadInput(name, str(value), problem)

    from squall.sim.campaigns.file import CampaignFileError, load_plan

    try:
        return load_plan(file)
    except CampaignFileError as error:
        raise BadInput("FILE", str(file), str(error)) from None


def _check_alone(option: str, given: list[tuple[str, object]]) -> None:
    """Raises BadInput for what does not go with an option."""
    for name, value in given:
        if value is not None:
            raise BadInput(name, str(value), f"does not go with {option}, which plays nothing")
