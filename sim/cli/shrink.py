"""``squall shrink``: a failing scenario made small."""

from __future__ import annotations

import json as json_module
import math
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.panel import Panel
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from squall.sim.cli.input import BadInput, file_to_write
from squall.sim.cli.report import WIDTH
from squall.sim.cli.scenario import read_scenario

if TYPE_CHECKING:
    from squall.model.program.program import Program
    from squall.sim.search.shrink.shrinker import Shrinker

INTERRUPTED = 130
MAX_SECONDS = 24 * 3600.0
_REFRESH_S = 0.25

EPILOG = """\
[bold]Examples[/bold]

squall shrink .squall/scenarios/0a1b2c3d.json -o small.json

squall shrink 1234 --faults rough --seconds 300

squall shrink 5 --mutant dependency-not-counted --json
"""


def shrink(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="FILE|SEED",
            help="A scenario file, a seed of squall fuzz, or the name of a stored failure.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write the small scenario (default: with the stored failures).",
            show_default=False,
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE|PLAN",
            help="What draws the seed's faults (mild, rough, storm), or a file with a fault plan.",
            show_default=False,
        ),
    ] = None,
    mutant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Plant this bug (squall mutants --list).", show_default=False
        ),
    ] = None,
    seconds: Annotated[
        str, typer.Option(metavar="S", help="Real seconds to spend at most.")
    ] = "120",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Make a failing scenario small: program, faults and order together, the same thing breaking.

    Fewest deviations from a plain run without faults first, then size, then values. Ctrl-C keeps
    the best so far.
    """
    limit = _seconds(seconds)
    if output is not None:  # not after minutes of work
        file_to_write("--output", output)
    saved = read_scenario(scenario, faults=faults, mutant=mutant)
    from squall.sim.scenarios.file import ScenarioError
    from squall.sim.search.again import planted
    from squall.sim.search.shrink.shrinker import NotFailingError, Shrinker

    try:
        with planted(saved.expected.mutant):
            pass
    except ScenarioError as error:
        raise BadInput("SCENARIO", scenario, str(error)) from None
    with _Display() as display:
        shrinker = Shrinker(saved, seconds=limit, on_progress=display.show)
        try:
            shrinker.run()
        except NotFailingError as error:
            raise BadInput("SCENARIO", scenario, f"{error}; expected one that fails") from None
    if shrinker.target is None:  # interrupted before it was seen to fail
        raise KeyboardInterrupt
    file = _write(shrinker, output)
    if json:
        typer.echo(shrink_json(shrinker, file))
    else:
        print_shrunk(shrinker, file, Console(highlight=False))
    raise typer.Exit(INTERRUPTED if shrinker.interrupted else 0)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MAX_SECONDS:
        raise BadInput("--seconds", text, f"expected a positive number, got {text!r}")
    return value


def _write(shrinker: Shrinker, output: str | None) -> str:
    """Write the result down; where."""
    from squall.sim.scenarios.file import dump_scenario
    from squall.sim.scenarios.store import Store, StoreError, write_synced

    if output is not None:
        try:
            write_synced(Path(output), dump_scenario(shrinker.best))
        except OSError as error:
            raise BadInput(
                "--output", output, f"cannot write {output!r}: {error.strerror}"
            ) from None
        return output
    try:
        return Store().keep(shrinker.best, found_by="shrink", text=str(shrinker.target)).file
    except StoreError as error:
        raise BadInput("--output", "", f"{error}; expected a file to write to") from None


def shrink_json(shrinker: Shrinker, file: str) -> str:
    """The object of ``squall shrink --json``; its keys are in docs/json.md."""
    from squall.sim.search.shrink.cost import deviations, extent

    target, best = shrinker.target, shrinker.best
    assert target is not None
    return json_module.dumps(
        {
            "outcome": "interrupted" if shrinker.interrupted else "ok",
            "before": extent(shrinker.first)._asdict(),
            "after": extent(best)._asdict(),
            "file": file,
            "property": target.property,
            "what": target.what,
            "deviations": deviations(best),
            "digest": best.expected.digest,
            "mutant": best.expected.mutant,
            "tried": shrinker.tried,
            "out_of_time": shrinker.out_of_time,
            "replay": shlex.join(["squall", "replay", file]),
        },
        allow_nan=False,
    )


def print_shrunk(shrinker: Shrinker, file: str, console: Console) -> None:
    """Before, after, and what is left."""
    from squall.sim.search.shrink.cost import deviations, extent

    target, best = shrinker.target, shrinker.best
    assert target is not None
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("breaks", Text(f"{target.property}: {target.what}", style="red"))
    table.add_row("before", str(extent(shrinker.first)))
    table.add_row("after", Text(str(extent(best)), style="bold green"))
    table.add_row("run", deviations(best))
    if best.expected.mutant is not None:
        table.add_row("planted", f"mutant {best.expected.mutant}")
    if best.program is not None:
        for line in program_lines(best.program):
            table.add_row("", Text(line))
    table.add_row("tried", f"{shrinker.tried:,} runs")
    if shrinker.out_of_time or shrinker.interrupted:
        why = "interrupted" if shrinker.interrupted else "the time was over"
        table.add_row("", Text(f"{why}: the best so far", style="yellow"))
    width = min(WIDTH, console.width)
    panel = Panel(table, title="squall shrink", title_align="left", padding=(1, 2), width=width)
    console.print(panel)
    console.print(Text(f"again: squall replay {file}", style="dim"), soft_wrap=True)


class _Display:
    """What the shrinker is at, on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("shrink"),
            TextColumn("{task.fields[best]}"),
            TextColumn("{task.fields[tried]}"),
            TimeElapsedColumn(),
            console=self._console,
            auto_refresh=False,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task("shrink", total=None, best="", tried="")
        self._shown = 0.0

    def __enter__(self) -> _Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, shrinker: Shrinker) -> None:
        now = time.monotonic()
        if now - self._shown < _REFRESH_S:
            return
        self._shown = now
        from squall.sim.search.shrink.cost import extent

        best = str(extent(shrinker.best))
        self._progress.update(self._task, best=best, tried=f"{shrinker.tried:,} runs")
        self._progress.refresh()


def program_lines(program: Program) -> list[str]:
    """The program, a line for each part."""
    from squall.model.program.program import source

    lines = [f"leaves on workers {', '.join(str(leaf.owner) for leaf in program.leaves)}"]
    for t, s, step in program.steps:
        where = program.trainers[t].worker
        lines.append(f"trainers[{t}] on worker {where}, steps[{s}]:")
        for index, op in enumerate(step.ops):
            names = []
            for input in op.inputs:
                is_leaf, number = source(program, index, input)
                names.append(f"{'leaf' if is_leaf else 'op'} {number}")
            via = "".join(f" via {worker}" for worker in op.via)
            call = "" if op.call == "local" else f" by {op.call} on worker {op.worker}{via}"
            lines.append(f"  op {index}: {op.kind}({', '.join(names)}){call}")
        for backward in step.backwards:
            roots = ", ".join(str(len(step.ops) - back) for back in backward.roots)
            lines.append(f"  backward from op {roots}")
    return lines
