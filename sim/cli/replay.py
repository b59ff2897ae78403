"""``squall replay``: a run again, and what came of it."""

from __future__ import annotations

import json as json_module
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from squall.sim.cli.first_difference import diff_runs
from squall.sim.cli.input import BadInput, file_to_write
from squall.sim.cli.report import WIDTH
from squall.sim.cli.scenario import read_scenario

if TYPE_CHECKING:
    from squall.model.events.run import Run
    from squall.sim.scenario import Scenario
    from squall.sim.scenarios.replay import Until
    from squall.sim.world.watch import Divergence

FAILED = 1
#: events shown at the end of a run that was stopped
_LAST_SHOWN = 8
#: frames of a stack, the innermost, that are printed
_STACK_SHOWN = 8

EPILOG = """\
[bold]Examples[/bold]

squall replay 1234                          (the scenario of seed 1234)

squall replay 1234 --faults rough --log

squall replay .squall/scenarios/0a1b2c3d.json --until BACKWARD_AUTOGRAD_REQ:2

squall replay 7 --diff 8                    (where do they part?)

squall replay 7 --check-determinism --json
"""


def replay(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SEED|FILE",
            help="A seed of squall fuzz, a scenario file, or the name of a stored failure.",
            show_default=False,
        ),
    ],
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
    device: Annotated[
        str | None,
        typer.Option(
            metavar="cpu|cuda", help="Where all tensors live; a file says it.", show_default=False
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="port|torch", help="Which engine runs it; a file says it.", show_default=False
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="EVENT",
            help="Stop there: the number of an event, t=SECONDS of virtual time, or the name of an "
            "event or message type, the second of it as NAME:2.",
            show_default=False,
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tell every event in words.")] = False,
    log: Annotated[
        bool, typer.Option("--log", help="One line an event, a column for each worker.")
    ] = False,
    diff: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER",
            help="Run this one too (seed or file) and show the first event at which they part.",
            show_default=False,
        ),
    ] = None,
    check_determinism: Annotated[
        bool,
        typer.Option(
            "--check-determinism",
            help="Run it twice and stop where the second run parts from the first.",
        ),
    ] = False,
    save: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the scenario and its digest there.", show_default=False
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a scenario again and say whether it is the same run: to the last event, or not.

    Exit code 1 if something does not hold, or if the digest is not the expected one.
    """
    stop = None if until is None else read_until(until)
    if diff is not None and (stop is not None or check_determinism):
        raise BadInput("--diff", diff, "expected without --until and --check-determinism")
    if save is not None:
        file_to_write("--save", save)
    again = read_scenario(scenario, faults=faults, mutant=mutant, device=device, engine=engine)
    console = Console(file=sys.stderr if json else sys.stdout, highlight=False, soft_wrap=True)
    if diff is not None:
        other = read_scenario(
            diff, faults=faults, mutant=mutant, device=device, engine=engine, field="--diff"
        )
        raise typer.Exit(diff_runs(again, other, console, json=json))
    divergence = _check_determinism(again) if check_determinism else None
    for line in left_out(again):
        typer.echo(f"squall: the engine {again.engine} leaves out {line}", err=True)
    again, run = _play(again, stop)
    if stop is not None and not stop.stopped:
        problem = f"there is no {until} in this run, which has {len(run.records)} events"
        raise BadInput("--until", until or "", problem)
    if save is not None:
        _save(again, run, save)
    if verbose or log:
        _tell(again, run, console, log=log)
    if json:
        typer.echo(replay_json(again, run, stop, divergence, checked=check_determinism))
    else:
        print_replay(again, run, console, stop, divergence, checked=check_determinism)
    raise typer.Exit(0 if _good(again, run) and divergence is None else FAILED)


def _good(scenario: Scenario, run: Run) -> bool:
    from squall.sim.scenarios.replay import digest_matches

    return run.outcome in ("ok", "stopped") and digest_matches(scenario, run) is not False


def read_until(text: str) -> Until:
    """Raises :class:`BadInput` unless ``text`` names an event."""
    from squall.real.rpc.message import MessageType
    from squall.real.tracing import EventType
    from squall.sim.scenarios.replay import Until

    if re.fullmatch(r"\d+", text):
        return Until(number=int(text))
    if match := re.fullmatch(r"t=(\d+\.?\d*(?:e-?\d+)?)(?: ?s)?", text):
        return Until(time_s=float(match[1]))
    name, _, nth = text.partition(":")
    known = name in EventType.registry or name in MessageType.__members__
    if known and re.fullmatch(r"([1-9]\d*)?", nth):
        return Until(name=name, nth=int(nth or 1))
    problem = (
        f"expected the number of an event, t=SECONDS, or NAME or NAME:n with the name of an event "
        f"(node_executed) or a message type (BACKWARD_AUTOGRAD_REQ), got {text!r}"
    )
    raise BadInput("--until", text, problem)


def _play(scenario: Scenario, stop: Until | None) -> tuple[Scenario, Run]:
    """Run it; with nothing to compare the digest with, first once to know it."""
    from squall.sim.scenarios.failure import expecting
    from squall.sim.scenarios.file import ScenarioError
    from squall.sim.search.again import again

    try:
        if stop is not None:
            return scenario, again(scenario, until=stop)
        if scenario.expected.digest is None:
            scenario = expecting(scenario, again(scenario))
        return scenario, again(scenario)
    except ScenarioError as error:
        raise BadInput("SCENARIO", "", str(error)) from None


def left_out(scenario: Scenario) -> list[str]:
    """Items of the fault plan that the engine cannot do."""
    from squall.sim.scenarios.engines import ENGINES

    engine = ENGINES[scenario.engine]
    return engine.left_out(scenario.faults, of_script=scenario.script is not None)


def _check_determinism(scenario: Scenario) -> Divergence | None:
    from squall.sim.scenarios.replay import first_divergence
    from squall.sim.search.again import planted

    with planted(scenario.expected.mutant):
        return first_divergence(scenario)


def _save(scenario: Scenario, run: Run, text: str) -> None:
    from squall.sim.scenarios.failure import expecting
    from squall.sim.scenarios.file import dump_scenario
    from squall.sim.scenarios.store import write_synced

    try:
        write_synced(Path(text), dump_scenario(expecting(scenario, run)))
    except OSError as error:
        raise BadInput("--save", text, f"cannot write {text!r}: {error.strerror}") from None


def _tell(scenario: Scenario, run: Run, console: Console, *, log: bool) -> None:
    from squall.sim.pictures.narrate import column_log, narrate

    if log:
        for line in column_log(run.records, workers_of(scenario, run)):
            console.print(line)
        return
    for text in narrate(run.records):
        console.print(text, markup=False)


def workers_of(scenario: Scenario, run: Run) -> int:
    """How many workers the run had."""
    known = scenario.workers
    if known is not None:
        return known
    return 1 + max((record[1] for record in run.records), default=-1)


# -- for machines ---------------------------------------------------------------------------------


def replay_json(
    scenario: Scenario,
    run: Run,
    stop: Until | None,
    divergence: Divergence | None,
    *,
    checked: bool,
) -> str:
    """The object of ``squall replay --json``; its keys are in docs/json.md."""
    from squall.model.events.waiting import to_json
    from squall.sim.scenarios.replay import digest_matches, explanation

    graph = run.wait_graph()
    told: dict[str, Any] = {
        "digest": run.digest,
        "expected_digest": scenario.expected.digest,
        "digest_matches": digest_matches(scenario, run),
        "outcome": run.outcome,
        "violations": [violation.to_json() for violation in run.violations],
        "seed": scenario.seed,
        "workers": workers_of(scenario, run),
        "operations": scenario.operations,
        "faults": len(scenario.faults),
        "left_out": left_out(scenario),
        "profile": scenario.profile,
        "mutant": scenario.expected.mutant,
        "engine": scenario.engine,
        "device": scenario.world.device,
        "events": len(run.records),
        "virtual_time_s": run.ended_s,
        "waits": run.waits,
        "explanation": explanation(scenario, run),
        "wait_graph": None if graph is None else to_json(graph),
    }
    if stop is not None:
        told["stopped"] = _stopped_json(run, stop)
    if checked:
        told["divergence"] = None if divergence is None else divergence.to_json()
    return json_module.dumps(told, allow_nan=False)


def _stopped_json(run: Run, stop: Until) -> dict[str, Any]:
    from squall.sim.pictures.narrate import sentence

    number = len(run.records) - 1
    text = sentence(run.records, number)
    return {"event": number, "text": text, "waiting": stop.waiting}


# -- for people -----------------------------------------------------------------------------------


def print_replay(
    scenario: Scenario,
    run: Run,
    console: Console,
    stop: Until | None,
    divergence: Divergence | None,
    *,
    checked: bool,
) -> None:
    """What happened, and whether it is the same run."""
    from squall.sim.scenarios.replay import digest_matches, explanation

    if run.printed:
        console.print(Text(run.printed.rstrip("\n")))
    for violation in run.violations:
        console.print(Text(str(violation), style="red"))
    if stop is not None:
        _print_stop(run, stop, console)
    if divergence is not None:
        _print_divergence(divergence, console)
    for line in [*run.waits, *explanation(scenario, run)]:
        console.print(Text(line, style="yellow"))
    good = _good(scenario, run) and divergence is None
    same = digest_matches(scenario, run)
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("outcome", Text(run.outcome, style="bold green" if good else "bold red"))
    table.add_row("scenario", _scenario_text(scenario, run))
    if scenario.expected.mutant is not None:
        table.add_row("planted", f"mutant {scenario.expected.mutant}")
    matches = {True: "as expected", False: f"expected {scenario.expected.digest}", None: ""}
    style = "bold red" if same is False else ""
    table.add_row("digest", Text(f"{run.digest}  {matches[same]}", style=style))
    if checked:
        said = "the same to the last event" if divergence is None else "parts from the first"
        table.add_row("a second run", said)
    table.add_row("events", f"{len(run.records):,}")
    table.add_row("virtual time", f"{run.ended_s:.6f} s")
    panel = Panel(
        table,
        title="squall replay",
        title_align="left",
        border_style="green" if good else "red",
        padding=(1, 2),
        width=min(WIDTH, console.width),
    )
    console.print(panel)


def _scenario_text(scenario: Scenario, run: Run) -> str:
    parts = [f"seed {scenario.seed}", f"{workers_of(scenario, run)} workers"]
    if scenario.operations is not None:
        parts.append(f"{scenario.operations} operations")
    parts += [f"{len(scenario.faults)} faults", f"order {scenario.faults.schedule.order}"]
    return ", ".join([*parts, f"latency {scenario.world.latency}"])


def _print_stop(run: Run, stop: Until, console: Console) -> None:
    from squall.sim.pictures.narrate import narrate

    records = run.records
    for line in narrate(records, first=max(0, len(records) - _LAST_SHOWN)):
        console.print(line, markup=False)
    console.print(Text(f"stopped after event {len(records) - 1}; who waits:", style="bold"))
    for line in stop.waiting or ["nobody"]:
        console.print(f"  {line}", markup=False)


def print_second_run(divergence: Divergence | None, console: Console) -> None:
    """What a second run came to."""
    if divergence is None:
        console.print("a second run was the same to the last event and draw")
    else:
        _print_divergence(divergence, console)


def _print_divergence(divergence: Divergence, console: Console) -> None:
    from squall.sim.world.watch import stack_lines

    console.print(Text(f"not deterministic: {divergence}", style="bold red"))
    for name, step in (("first", divergence.one), ("second", divergence.other)):
        console.print(f"the {name} run was at:")
        for line in stack_lines(step)[-_STACK_SHOWN:] or ["its end"]:
            console.print(f"  {line}", markup=False)
