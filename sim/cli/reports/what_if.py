"""What ``squall what-if`` says of a step, for people and for machines, and its page."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from squall.model.events.group_time import GroupTime, StepTime
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.panels import print_panel, summary_table
from squall.sim.names import PlotlyFrom
from squall.sim.pictures.flows import seconds

if TYPE_CHECKING:
    from squall.sim.cli.script import ScriptRun

#: ranks, and steps, that are told one by one
_RANKS, _STEPS = 16, 8


@dataclass
class CostPart:
    """Seconds of one rank in operations of one kind: while data moved, and by whom it waited for."""

    moving_s: float = 0.0
    waiting_s: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def total_s(self) -> float:
        return self.moving_s + sum(self.waiting_s.values())


@dataclass
class OfRank:
    """Seconds of one rank in a step."""

    compute_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    parts: dict[str, CostPart] = field(default_factory=lambda: defaultdict(CostPart))
    idle_s: float = 0.0


def parts_of(found: GroupTime, step: StepTime) -> dict[int, OfRank]:
    """By rank, where the time of a step goes."""
    ranks = {rank: OfRank() for rank in sorted(step.end_s)}
    for each in found.segments_in(step):
        of = ranks[each.rank]
        match each.state:
            case "compute":
                of.compute_s[each.kind] += each.seconds
            case "moving":
                of.parts[each.kind].moving_s += each.seconds
            case "waiting":
                of.parts[each.kind].waiting_s[each.by] += each.seconds
            case _:
                of.idle_s += each.seconds
    return ranks


def bubbles(ranks: dict[int, OfRank], step: StepTime) -> float:
    """The share of all ranks' time in which they do not compute."""
    whole_s = sum(step.end_s[rank] - step.start_s[rank] for rank in ranks)
    computed_s = sum(sum(each.compute_s.values()) for each in ranks.values())
    return 1 - computed_s / whole_s if whole_s else 0.0


def report_json(found: GroupTime, step: StepTime, asked: ScriptRun) -> str:
    """The object of ``squall what-if --json``; its keys are in docs/json.md."""
    ranks = parts_of(found, step)
    return json.dumps(
        {
            "script": str(asked.script),
            "args": list(asked.args),
            "seed": asked.seed,
            "links": asked.links,
            "algorithms": asked.algorithms,
            "backend": asked.backend,
            "compute": asked.compute,
            "digest": found.run.digest,
            "virtual_time_s": found.run.ended_s,
            "steps_s": [each.seconds for each in found.steps],
            "step": step.number,
            "seconds": step.seconds,
            "bubbles": bubbles(ranks, step),
            "ranks": [_rank_json(rank, each) for rank, each in ranks.items()],
            "critical_path": [each._asdict() for each in found.critical_path(step)],
        },
        allow_nan=False,
    )


def _rank_json(rank: int, of: OfRank) -> dict[str, Any]:
    return {
        "rank": rank,
        "compute_s": dict(of.compute_s),
        "idle_s": of.idle_s,
        "operations": {
            kind: {
                "moving_s": part.moving_s,
                "waiting_s": {str(rank): s for rank, s in sorted(part.waiting_s.items())},
            }
            for kind, part in sorted(of.parts.items())
        },
    }


def print_report(
    found: GroupTime, step: StepTime, asked: ScriptRun, console: Console, page: Path | None
) -> None:
    """A table of the step's parts by rank, and its critical path."""
    from squall.sim.pictures.step_time import told

    ranks = parts_of(found, step)
    summary = summary_table()
    summary.add_row("links", Text(asked.links.replace(";", ", ")))
    summary.add_row("compute", Text(asked.compute or "nothing takes time but sleeps"))
    if step.number:
        times = [each.seconds for each in found.steps]
        more = f" and {len(times) - _STEPS} more" if len(times) > _STEPS else ""
        summary.add_row("steps", Text(", ".join(map(seconds, times[:_STEPS])) + more))
    summary.add_row("no compute", Text(f"{100 * bubbles(ranks, step):.1f} % of the ranks' time"))
    for name, line in zip(
        ("critical path", "its course"), told(found.critical_path(step)), strict=False
    ):
        summary.add_row(name, Text(line))
    if page is not None:
        summary.add_row("picture", Text(f"{page} (open it in a browser)"))
    which = f"step {step.number}" if step.number else "no optimizer made a step: the whole run"
    title = f"{asked.script}, {which}: {seconds(step.seconds)}"
    print_panel(console, Group(_table(ranks), Text(), summary), title)


def _table(ranks: dict[int, OfRank]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("rank", "in", "time", "data moves", "waits, or what it computes"):
        table.add_column(name, style="dim" if name == "rank" else "", no_wrap="waits" not in name)
    for rank, of in list(ranks.items())[:_RANKS]:
        for at, row in enumerate(_rows(of)):
            table.add_row("" if at else str(rank), *row)
    if len(ranks) > _RANKS:
        table.add_row("…", f"{len(ranks) - _RANKS} more ranks: see --json", "", "", "")
    return table


def _rows(of: OfRank) -> Iterator[tuple[str, str, str, str]]:
    names = ", ".join(f"{name} {seconds(s)}" for name, s in sorted(of.compute_s.items()))
    yield "compute", seconds(sum(of.compute_s.values())), "", names if len(of.compute_s) > 1 else ""
    for kind, part in sorted(of.parts.items()):
        waits = sorted(part.waiting_s.items(), key=lambda each: -each[1])
        yield (
            kind,
            seconds(part.total_s),
            seconds(part.moving_s),
            ", ".join(f"{seconds(s)} for rank {rank}" for rank, s in waits),
        )
    if of.idle_s:
        yield "nothing", seconds(of.idle_s), "", ""


def write_page(
    found: GroupTime, step: StepTime, title: str, path: Path, plotly: PlotlyFrom
) -> None:
    """Draw the step. Raises :class:`BadInput`."""
    from squall.sim.pictures.figure_page import figure_page
    from squall.sim.pictures.plotly_js import write_plotly
    from squall.sim.pictures.step_time import step_time, told

    text = "Critical path: " + "\n\n".join(told(found.critical_path(step)))
    page = figure_page(step_time(found, step), title, text=text, plotly=plotly)
    try:
        path.write_text(page, encoding="utf-8")
        if plotly == "file":
            write_plotly(path.parent)
    except OSError as error:
        problem = f"cannot write {str(path)!r}: {error.strerror or error}"
        raise BadInput("--output", str(path), problem) from None
