"""``squall corpus``: what campaigns play first, and what to do with it."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn
from rich.table import Table
from rich.text import Text

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.exits import FAILED, INTERRUPTED
from squall.sim.cli.options import Jobs, Json, merge_option, output_option

if TYPE_CHECKING:
    from squall.sim.search.covers import Cover

RANK = 35
EPILOG = """\
[bold]Examples[/bold]

squall corpus                        (stored scenarios, and covers)

squall corpus a.json b.json --merge  (into the cover of this folder)

squall corpus --minimise --jobs 2    (play the covers of this folder, and keep what is needed)

squall corpus cover.json --minimise -o smaller.json
"""


def corpus(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Covers (default: those of this folder)."),
    ] = None,
    merge: Annotated[
        bool, merge_option("Make one cover of these and that of this folder.")
    ] = False,
    minimise: Annotated[
        bool,
        typer.Option("--minimise", help="Play each cover, and keep the seeds that are needed."),
    ] = False,
    output: Annotated[Path | None, output_option("Write the cover there.")] = None,
    jobs: Jobs = 1,
    json: Json = False,
) -> None:
    """List what campaigns play before their own seeds: stored scenarios, and distilled covers.

    A cover is a list of seeds whose programs show all that many more have shown (squall fuzz
    --distil). Each profile of faults has one of its own. One that an earlier generator drew is
    stale: its seeds are as good as any others.
    """
    if merge and minimise:
        raise BadInput("--merge", "", "expected either --merge or --minimise, got both")
    if output is not None and not (merge or minimise):
        raise BadInput(
            "-o", str(output), "expected --merge or --minimise with it, which write a cover"
        )
    if merge:
        _tell(_merged(files or [], output), json)
    elif minimise:
        _tell(_minimised(files or [], output, jobs), json)
    else:
        _list(files or [], json)


Named = tuple[Path, "Cover"]


def _read(files: list[Path]) -> list[Named]:
    from squall.sim.search.covers import CoverError, load_cover

    found = []
    for file in files:
        try:
            found.append((file, load_cover(file.read_text(encoding="utf-8"), str(file))))
        except CoverError as error:
            raise BadInput("FILE", str(file), str(error)) from None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise BadInput("FILE", str(file), f"cannot read {str(file)!r}: {reason}") from None
    return found


def _own() -> list[Named]:
    from squall.sim.names import PROFILES
    from squall.sim.search.covers import own_file

    return _read([file for profile in ("", *PROFILES) if (file := own_file(profile)).exists()])


def _written(cover: Cover, file: Path) -> Named:
    try:
        cover.save(file)
    except OSError as error:
        problem = f"cannot write {str(file)!r}: {error.strerror}"
        raise BadInput("-o", str(file), problem) from None
    return file, cover


def _merged(files: list[Path], output: Path | None) -> list[Named]:
    from squall.sim.search.covers import CoverError, merged, own_file

    if not files:
        raise BadInput("FILE", "", "expected one or more covers to merge")
    covers = [cover for _, cover in _read(files)]
    mine = own_file(covers[0].profile)
    if mine.exists():
        covers = [cover for _, cover in _read([mine])] + covers
    try:
        return [_written(merged(covers), output or mine)]
    except CoverError as error:
        raise BadInput("FILE", str(files[0]), str(error)) from None


def _minimised(files: list[Path], output: Path | None, jobs: int) -> list[Named]:
    found = _read(files) if files else _own()
    if not found:
        raise BadInput("FILE", "", "there is no cover in this folder: squall fuzz --distil N")
    if output is not None and len(found) > 1:
        raise BadInput("-o", str(output), f"expected one cover to write there, got {len(found)}")
    return [_written(_minimal(cover, jobs), output or file) for file, cover in found]


def _minimal(cover: Cover, jobs: int) -> Cover:
    from squall.sim.search.covering import Collector
    from squall.sim.search.draw import settings_of
    from squall.sim.search.judge import judge_all
    from squall.sim.world import interrupts

    settings = settings_of(cover.profile)._replace(stats=True)
    collector = Collector()
    name = cover.profile or "plain"
    bar = Bar(name, BarColumn(), MofNCompleteColumn(), total=len(cover.seeds))
    try:
        with interrupts.heard(), bar:
            for verdict in judge_all(cover.seeds, settings, jobs=jobs):
                bar.say(advance=1)
                if not verdict.ok:
                    seen = f"seed {verdict.seed}: {verdict.violations[0]}"
                    sys.stderr.write(f"a cover is made of sound runs alone: {seen}\n")
                    raise typer.Exit(FAILED)
                collector.add(verdict.seed, verdict.facts, verdict.events)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: no cover was written\n")
        raise typer.Exit(INTERRUPTED) from None
    return collector.cover(cover.profile, cover.scenarios)


def _tell(written: list[Named], json: bool) -> None:
    if json:
        covers = [_cover_json(file, cover, shipped=False) for file, cover in written]
        typer.echo(json_module.dumps({"covers": covers}))
        return
    for file, cover in written:
        typer.echo(f"{file}: {len(cover.seeds):,} seeds, {cover.facts:,} facts")


def _cover_json(file: Path, cover: Cover, *, shipped: bool) -> dict[str, Any]:
    return {
        "profile": cover.profile or None,
        "file": None if shipped else str(file),
        "shipped": shipped,
        "seeds": len(cover.seeds),
        "facts": cover.facts,
        "scenarios": cover.scenarios,
        "current": cover.current,
    }


def _list(files: list[Path], json: bool) -> None:
    from squall.sim.names import PROFILES
    from squall.sim.search.corpus import corpus as stored
    from squall.sim.search.covers import shipped

    covers = [(Path(), cover, True) for profile in ("", *PROFILES) if (cover := shipped(profile))]
    covers += [(file, cover, False) for file, cover in (_read(files) if files else _own())]
    if json:
        told = {
            "scenarios": [
                {
                    "name": name,
                    "engine": each.engine,
                    "workers": each.workers,
                    "ops": each.operations,
                }
                for name, each in stored().items()
            ],
            "covers": [_cover_json(file, cover, shipped=own) for file, cover, own in covers],
        }
        typer.echo(json_module.dumps(told))
        return
    console = Console(highlight=False)
    table = Table(title="stored scenarios", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("name", "engine", "workers", "operations"):
        table.add_column(name, no_wrap=True)
    for name, each in stored().items():
        table.add_row(name, each.engine, str(each.workers), str(each.operations))
    console.print(table)
    table = Table(title="\ncovers", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("faults", "seeds", "of", "facts", "where"):
        table.add_column(name, justify="left" if name in ("faults", "where") else "right")
    for file, cover, own in covers:
        where = Text("shipped" if own else str(file))
        if not cover.current:
            where.append(", stale: squall fuzz --distil N draws it anew", "yellow")
        table.add_row(
            cover.profile or "none",
            f"{len(cover.seeds):,}",
            f"{cover.scenarios:,}",
            f"{cover.facts:,}",
            where,
        )
    console.print(table)
