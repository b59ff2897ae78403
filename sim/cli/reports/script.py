"""What ``squall run`` says of a run, for people and for machines."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from squall.model.checks.scripts import left_behind
from squall.model.events.names import in_words, number_of, type_named
from squall.model.events.run import DIED, EXITED, NOT_CHECKED, WRONG_GROUPS
from squall.model.events.waiting import to_json as graph_json
from squall.model.one_process.reference import GradientSummary
from squall.sim.cli.panels import WIDTH, print_panel, summary_table, unchecked_row, verdict
from squall.sim.library.errors import TOLD_ELSEWHERE, leaked, together
from squall.sim.scripts.raised_error import raised_remotely, rank_error
from squall.sim.scripts.ranks import command_line, has_ranks

if TYPE_CHECKING:
    from squall.model.events.run import ProcessError, Run
    from squall.sim.cli.script import ScriptRun
    from squall.sim.scenario import Script
    from squall.sim.scenarios.failure import Failure
    from squall.sim.world.watch import Divergence

MISMATCHES_SHOWN = 10
NOT_COMPARABLE_SHOWN = 3


def run_json(
    run: Run,
    asked: ScriptRun,
    script: Script,
    kept: Failure | None = None,
    divergence: Divergence | None = None,
) -> str:
    """The object of ``squall run --json``; its keys are in docs/json.md."""
    return json.dumps(
        {
            **script_json(run, asked.seed),
            "script": str(asked.script),
            "args": list(asked.args),
            "ranks": _ranks_json(script),
            "latency": asked.latency,
            "device": asked.device,
            "compute": script.compute,
            "command": asked.command(),
            "replay": None if kept is None else kept.replay,
            "divergence": None if divergence is None else divergence.to_json(),
        },
        allow_nan=False,
    )


def _ranks_json(script: Script) -> list[dict[str, Any]] | None:
    """What each rank runs, where the ranks have command lines of their own."""
    if not has_ranks(script):
        return None
    lines = [command_line(script, rank) for rank in range(script.workers or 0)]
    return [
        {"script": line.path, "args": list(line.args), "environ": dict(line.environ)}
        for line in lines
    ]


def script_json(run: Run, seed: int) -> dict[str, Any]:
    """What came of a script's run, plain values only."""
    gradients, graph, hang = run.gradients, run.wait_graph(), run.hang()
    left, groups = run.rpc_groups, run.process_groups
    return {
        "engine": run.engine,
        "seed": seed,
        "digest": run.digest,
        "outcome": run.outcome,
        "checked": run.unchecked is None,
        "unchecked": run.unchecked,
        "violations": [violation.to_json() for violation in run.violations],
        "gradients_equal": None if gradients is None else gradients.equal,
        "leaked": {"rrefs": left.leaked_rrefs, "contexts": left.leaked_contexts},
        "kept": [each._asdict() for each in run.processes.kept],
        "virtual_time_s": run.ended_s,
        "wall_time_s": run.computing.wall_time_s,
        "messages": run.messages,
        "faults": run.faults,
        "left_out": run.conditions.left_out,
        "workers": run.workers,
        "operations": groups.operations,
        "found": groups.found,
        "results": groups.results_compared,
        "replicas": groups.replicas_compared,
        "stall": None if groups.stall is None else groups.stall._asdict(),
        "events": len(run.records),
        "gradients": None if gradients is None else _gradients_json(gradients),
        "errors": [error._asdict() for error in run.errors],
        "hints": run.hints,
        "packages": [
            {"package": name, "simulated": simulated, "reason": reason}
            for name, simulated, reason in run.processes.packages
        ],
        "waits": run.waits,
        "cause": None if hang is None else hang.cause,
        "cycle": [] if hang is None else [step._asdict() for step in hang.cycle],
        "held": run.when_stuck.held,
        "wait_graph": None if graph is None else graph_json(graph),
        "exit_codes": run.processes.exit_codes,
    }


def _gradients_json(gradients: GradientSummary) -> dict[str, Any]:
    # a gradient of another shape deviates infinitely, which JSON cannot say
    finite = math.isfinite(gradients.max_deviation)
    return {
        "passes": gradients.passes,
        "compared": gradients.compared,
        "failed": gradients.failed,
        "max_deviation": gradients.max_deviation if finite else None,
        "not_comparable": gradients.not_comparable,
        "mismatches": gradients.mismatches,
    }


def print_report(
    run: Run,
    asked: ScriptRun,
    console: Console,
    kept: Failure | None = None,
    *,
    packages: bool = False,
) -> None:
    """Failures, the summary, and the command that repeats the run; with ``packages`` also which
    installed packages are each process's own."""
    console = Console(file=console.file, width=min(WIDTH, console.width), highlight=False)
    console.print()
    for part in _failures(run):
        console.print(part, soft_wrap=True)
    if packages:
        console.print(_packages(run), soft_wrap=True)
    print_panel(console, _summary(run, asked), f"squall: {asked.script}", good=run.ok)
    console.print(Text(f"again: {asked.command()}", style="dim"), soft_wrap=True)
    if kept is not None:
        text = f"kept, script and all: {kept.replay}"
        console.print(Text(text, style="dim"), soft_wrap=True)
        console.print(Text(f"what decided it: {kept.explain}", style="dim"), soft_wrap=True)
        console.print(Text(f"to look at: {kept.timeline}", style="dim"), soft_wrap=True)


def _summary(run: Run, asked: ScriptRun) -> RenderableType:
    table = summary_table()
    table.add_row("outcome", verdict(run.outcome, good=run.ok))
    unchecked_row(table, run.unchecked)
    table.add_row("gradients", _gradients(run, asked))
    table.add_row(
        "cluster",
        Text(f"{number_of(run.workers, 'worker')}, seed {asked.seed}, latency {asked.latency}"),
    )
    if asked.faults is not None:
        said = ", ".join(f"{kind} {count:,}" for kind, count in run.faults.items())
        table.add_row("faults", f"{asked.faults.text}: {said or 'none happened'}")
    table.add_row("virtual time", f"{run.ended_s:.6f} s")
    table.add_row("wall time", f"{run.computing.wall_time_s:.3f} s")
    groups = run.rpc_groups
    left = (
        f"{number_of(groups.leaked_rrefs, 'RRef')}, {number_of(groups.leaked_contexts, 'context')}"
    )
    released = sum(each.number for each in run.processes.kept if each.grows)
    left += f"; shutdown released {released:,} more" if released else ""
    table.add_row("left behind", Text(left, style="bold red" if groups.leaks else ""))
    table.add_row("messages", _messages(run.messages))
    if run.process_groups.operations:
        table.add_row("groups", f"{number_of(run.process_groups.operations, 'operation')} ended")
    table.add_row("events", f"{len(run.records):,}")
    table.add_row("digest", run.digest)
    return table


def _packages(run: Run) -> RenderableType:
    if run.engine != "port":
        return Text("packages: each worker is a process and has its own of all")
    if not run.processes.packages:
        return Text("packages: none was imported")
    table = Table.grid(padding=(0, 2))
    for name, simulated, reason in run.processes.packages:
        table.add_row(name, "own" if simulated else "shared", Text(reason))
    return table


def _gradients(run: Run, asked: ScriptRun) -> RenderableType:
    summary = run.gradients
    if summary is None:
        return Text("not checked" if not asked.check else "nothing to compare", style="yellow")
    detail = (
        f"{summary.compared:,} of {number_of(summary.passes, 'backward pass', 'backward passes')}"
    )
    detail = f"{detail} compared, deviation at most {summary.max_deviation:.3g}"
    for why in summary.not_comparable[:NOT_COMPARABLE_SHOWN]:
        detail += f"\nnot compared: {in_words(why, run.names)}"
    if not summary.passes:
        said = "nothing to compare: no pass of distributed autograd"
        if run.process_groups.operations:
            said += "\nfor process groups see squall.reference"
            said += ", or --engine torch" * (run.engine == "port")
        return Text(said)
    if summary.equal is False:
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
        table.add_row(type_named(name), f"{count:,}")
    return table


def _failures(run: Run) -> list[RenderableType]:
    parts: list[RenderableType] = [_error(error, run.script or "") for error in run.errors]
    codes, groups = run.processes.exit_codes, run.process_groups
    if run.outcome == "error" and not run.errors:
        parts.extend(
            Text(f"process {name} ended with exit code {codes[name]}", style="bold red")
            for name in run.processes.failed
        )
    left = leaked(run)
    parts.extend(Text(line, style="bold red") for line in left)
    hints = [line for line in run.hints if line not in left]
    parts.extend(Text(f"hint: {line}", style="bold") for line in hints)
    for outcome, texts in groups.found.items():
        parts.append(Text(f"{WRONG_GROUPS[outcome]}:", style="bold red"))
        parts.append(_indented(_first(texts)))
    if groups.stall is not None and groups.stall.lines:
        style = "bold" if run.outcome in ("ok", NOT_CHECKED) else "bold red"
        parts.append(Text("why an operation of a process group failed:", style=style))
        parts.append(_indented(groups.stall.lines))
    if run.waits:
        parts.append(Text("nothing can happen any more:", style="bold red"))
        parts.append(_indented(run.why()))
    if run.when_stuck.held:
        parts.append(Text("references that are held:", style="bold red"))
        parts.append(_indented(_first(run.when_stuck.held)))
    told = [] if run.gradients is None else run.gradients.mismatches
    mismatches = [in_words(line, run.names) for line in told]
    if mismatches:
        parts.append(Text("gradients that differ from the reference:", style="bold red"))
        parts.append(_indented(_first(mismatches)))
    if others := _others(run):
        parts.append(Text("what does not hold:", style="bold red"))
        parts.append(_indented(_first(others)))
    return parts


def _first(things: Sequence[object]) -> list[str]:
    """Some of them, and how many there are besides."""
    lines = [str(each) for each in things[:MISMATCHES_SHOWN]]
    if len(things) > MISMATCHES_SHOWN:
        lines.append(f"and {len(things) - MISMATCHES_SHOWN} more (--json has them all)")
    return lines


def _others(run: Run) -> list[str]:
    """What does not hold and is not shown elsewhere."""
    shown = (each for each in run.violations if each.property not in TOLD_ELSEWHERE)
    return together((each for each in shown if not left_behind(each)), run.names)


def _indented(lines: list[str]) -> Text:
    return Text("".join(f"  {line}\n" for line in lines))


def _error(error: ProcessError, script: str) -> RenderableType:
    """What was raised and where: the process itself has printed the whole of it."""
    told = rank_error(error, script)
    where = f" ({Path(told.file).name}, line {told.line})" if told.file else ""
    rank = "" if error.rank is None else f" (rank {error.rank})"
    first_line = error.message.strip().partition("\n")[0]
    text = Text()
    if error.type != DIED:  # it says itself who
        who = error.worker if rank.strip(" ()") in error.worker else f"{error.worker}{rank}"
        verb = "ended with " if error.type == EXITED else f"raised {error.type}: "
        if (remote := raised_remotely(error.message)) is not None:
            verb, first_line = "failed: ", remote
            where = f", called from {Path(told.file).name}:{told.line}" if told.file else ""
        text.append(f"{who} {verb}", style="bold red")
    text.append(f"{first_line}{where}\n")
    return text
