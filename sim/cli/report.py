"""What a run came to, for people (rich) and for machines (one JSON object)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from squall.sim.cli.input import BadInput, RunOptions
    from squall.sim.scenarios.store import Kept
    from squall.sim.scripts.report import ProcessError, Report
    from squall.sim.world.watch import Divergence

WIDTH = 100
MISMATCHES_SHOWN = 10
NOT_COMPARABLE_SHOWN = 3


def run_json(
    report: Report,
    options: RunOptions,
    kept: Kept | None = None,
    divergence: Divergence | None = None,
) -> str:
    """The object of ``squall run --json``; its keys are in docs/json.md."""
    return json.dumps(
        {
            **report.to_json(),
            "script": str(options.script),
            "args": list(options.args),
            "latency": options.latency,
            "device": options.device,
            "command": options.command(),
            "replay": None if kept is None else kept.replay,
            "divergence": None if divergence is None else divergence.to_json(),
        },
        allow_nan=False,
    )


def bad_input_json(error: BadInput) -> str:
    """The object that stands for a run that never started."""
    return json.dumps(
        {
            "outcome": "bad input",
            "field": error.field,
            "value": error.value,
            "message": str(error),
        }
    )


def outcome_json(outcome: str, message: str) -> str:
    """The object that stands for a run that ended without a report."""
    return json.dumps({"outcome": outcome, "message": message})


def print_report(
    report: Report, options: RunOptions, console: Console, kept: Kept | None = None
) -> None:
    """Failures, the summary, and the command that repeats the run."""
    console = Console(file=console.file, width=min(WIDTH, console.width), highlight=False)
    console.print()
    for part in _failures(report):
        console.print(part, soft_wrap=True)
    console.print(
        Panel(
            _summary(report, options),
            title=Text(f"squall: {options.script}"),
            title_align="left",
            border_style="green" if report.ok else "red",
            padding=(1, 2),
        )
    )
    console.print(Text(f"again: {options.command()}", style="dim"), soft_wrap=True)
    if kept is not None:
        text = f"kept, script and all: {kept.replay}"
        console.print(Text(text, style="dim"), soft_wrap=True)
        console.print(Text(f"to look at: {kept.timeline}", style="dim"), soft_wrap=True)


def _summary(report: Report, options: RunOptions) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    ok = "bold green" if report.ok else "bold red"
    table.add_row("outcome", Text(report.outcome, style=ok))
    table.add_row("gradients", _gradients(report, options))
    table.add_row(
        "cluster",
        Text(f"{_count(report.workers, 'worker')}, seed {report.seed}, latency {options.latency}"),
    )
    if options.faults is not None:
        said = ", ".join(f"{kind} {count:,}" for kind, count in report.faults.items())
        table.add_row("faults", f"{options.faults}: {said or 'none happened'}")
    table.add_row("virtual time", f"{report.virtual_time_s:.6f} s")
    table.add_row("wall time", f"{report.wall_time_s:.3f} s")
    left = f"{_count(report.leaked_rrefs, 'RRef')}, {_count(report.leaked_contexts, 'context')}"
    leaked = report.leaked_rrefs or report.leaked_contexts
    table.add_row("left behind", Text(left, style="bold red" if leaked else ""))
    table.add_row("messages", _messages(report.messages))
    table.add_row("events", f"{report.events:,}")
    table.add_row("digest", report.digest)
    return table


def _gradients(report: Report, options: RunOptions) -> RenderableType:
    summary = report.gradients
    if summary is None:
        return Text("not checked" if not options.check else "nothing to compare", style="yellow")
    detail = f"{summary.compared:,} of {_count(summary.passes, 'backward pass', 'backward passes')}"
    detail = f"{detail} compared, deviation at most {summary.max_deviation:.3g}"
    for why in summary.not_comparable[:NOT_COMPARABLE_SHOWN]:
        detail += f"\nnot compared: {why}"
    if not summary.passes:
        return Text("nothing to compare: no backward pass")
    if not summary.equal:
        return Text(f"differ from the single-process reference\n{detail}", style="bold red")
    if not summary.compared:
        return Text(f"unknown\n{detail}", style="yellow")
    return Text.assemble(("equal", "green"), f" to the single-process reference\n{detail}")


def _messages(messages: dict[str, int]) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    table.add_column()
    table.add_column(justify="right")
    table.add_row(Text("all", style="bold"), Text(f"{sum(messages.values()):,}", style="bold"))
    for name, count in sorted(messages.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(name, f"{count:,}")
    return table


def _failures(report: Report) -> list[RenderableType]:
    parts: list[RenderableType] = [_error(error) for error in report.errors]
    if report.outcome == "error" and not report.errors:
        parts.extend(Text(line, style="bold red") for line in _exits(report.exit_codes))
    if report.waits:
        parts.append(Text("nothing can happen any more, and these wait:", style="bold red"))
        parts.append(_indented(report.waits))
        why = report.why()
        if why:
            parts.append(Text("who holds what they wait for:", style="bold red"))
            parts.append(_indented(why))
    mismatches: list[Any] = [] if report.gradients is None else list(report.gradients.mismatches)
    if mismatches:
        parts.append(Text("gradients that differ from the reference:", style="bold red"))
        lines = [str(mismatch) for mismatch in mismatches[:MISMATCHES_SHOWN]]
        if len(mismatches) > MISMATCHES_SHOWN:
            lines.append(f"and {len(mismatches) - MISMATCHES_SHOWN} more (--json has them all)")
        parts.append(_indented(lines))
    return parts


def _indented(lines: list[str]) -> Text:
    return Text("".join(f"  {line}\n" for line in lines))


def _error(error: ProcessError) -> RenderableType:
    rank = "" if error.rank is None else f" (rank {error.rank})"
    first_line = error.message.partition("\n")[0]  # the traceback ends with all of it
    text = Text()
    text.append(f"worker {error.worker}{rank} raised {error.type}: ", style="bold red")
    text.append(f"{first_line}\n")
    if error.traceback:
        text.append(error.traceback.rstrip() + "\n", style="dim")
    return text


def _exits(exit_codes: dict[str, int]) -> list[str]:
    return [
        f"process {name} ended with exit code {code}" for name, code in exit_codes.items() if code
    ]


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
