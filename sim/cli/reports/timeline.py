"""The files that ``squall timeline`` writes, and what it says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.names import PlotlyFrom
from squall.sim.pictures.odds import Odds
from squall.sim.pictures.plotly_js import write_plotly
from squall.sim.pictures.recording import Recording


class Drawing(NamedTuple):
    """How files are drawn: the pass whose graph is meant, the odds of the failure, if they were
    measured, and where a page has plotly.js from."""

    chosen: int | None = None
    found: Odds | None = None
    plotly: PlotlyFrom = "inline"


def write_files(run: Recording, wanted: dict[str, Path], drawing: Drawing, bar: Bar) -> None:
    """Write each kind of file to its path.

    Raises :class:`BadInput`.
    """
    for kind, path in wanted.items():
        bar.say(description=f"writing {path}")
        try:
            if kind in ("csv", "parquet"):
                _write_table(kind, path, run)
            elif kind in ("dot", "graphml"):
                path.write_text(_graph(kind, run, drawing.chosen), encoding="utf-8")
            else:
                path.write_text(_page(kind, run, drawing, bar), encoding="utf-8")
                if kind == "html" and drawing.plotly == "file":
                    write_plotly(path.parent)
        except OSError as error:
            problem = f"cannot write {str(path)!r}: {error.strerror or error}"
            raise BadInput("--output", str(path), problem) from None


def _page(kind: str, run: Recording, drawing: Drawing, bar: Bar) -> str:
    if kind == "perfetto":
        from squall.sim.pictures.perfetto import perfetto_json

        return perfetto_json(run)
    from squall.sim.pictures.page import page

    def say(name: str) -> None:
        bar.say(description=f"drawing {name}")

    return page(run, found=drawing.found, on_view=say, plotly=drawing.plotly)


def _graph(kind: str, run: Recording, chosen: int | None) -> str:
    from squall.sim.pictures import export

    try:
        return export.dot(run, chosen) if kind == "dot" else export.graphml(run, chosen)
    except ValueError as error:
        field = f"--{kind}" if chosen is None else "--pass"
        raise BadInput(field, str(chosen or ""), str(error)) from None


def _write_table(kind: str, path: Path, run: Recording) -> None:
    from squall.sim.pictures.events_frame import events_frame, write_csv, write_parquet

    (write_csv if kind == "csv" else write_parquet)(events_frame(run.records), path)


def print_timeline(run: Recording, wanted: dict[str, Path]) -> None:
    """What came of the run, and where its pictures are."""
    console = Console(highlight=False, soft_wrap=True)
    style = "bold green" if run.ok else "bold red"
    console.print(f"[{style}]{run.outcome}[/], {len(run):,} events, digest {run.digest}")
    for line in [*run.errors, *run.besides]:
        console.print(f"  {line}", markup=False)
    for kind, path in wanted.items():
        size = path.stat().st_size / 1e6
        opens = " (open it in a browser)" if kind == "html" else ""
        console.print(f"{kind}: {path}, {size:.1f} MB{opens}", markup=False)
    if run.replay:
        console.print(f"again: {run.replay}", style="dim", markup=False)


def timeline_json(run: Recording, wanted: dict[str, Path], found: Odds | None) -> str:
    """The object of ``squall timeline --json``; its keys are in docs/json.md."""
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
    return json.dumps(told, allow_nan=False)
