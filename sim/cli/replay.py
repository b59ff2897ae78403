"""``squall replay``: a run again, and what came of it."""

from __future__ import annotations

import json as json_module
import re
import sys
from dataclasses import replace
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
    from squall.sim.scenarios.file import SavedScenario
    from squall.sim.scenarios.replay import Played, Until
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
    saved = read_scenario(scenario, faults=faults, mutant=mutant, device=device, engine=engine)
    console = Console(file=sys.stderr if json else sys.stdout, highlight=False, soft_wrap=True)
    if diff is not None:
        other = read_scenario(
            diff, faults=faults, mutant=mutant, device=device, engine=engine, field="--diff"
        )
        raise typer.Exit(diff_runs(saved, other, console, json=json))
    divergence = _check_determinism(saved) if check_determinism else None
    for line in _left_out(saved):
        typer.echo(f"squall: the engine torch leaves out {line}", err=True)
    played = _play(saved, stop)
    if stop is not None and not stop.stopped:
        problem = f"there is no {until} in this run, which has {len(played.records)} events"
        raise BadInput("--until", until or "", problem)
    if save is not None:
        _save(played, save)
    if verbose or log:
        _tell(played, console, log=log)
    if json:
        typer.echo(replay_json(played, stop, divergence, checked=check_determinism))
    else:
        print_replay(played, console, stop, divergence, checked=check_determinism)
    good = played.ok and played.digest_matches is not False and divergence is None
    raise typer.Exit(0 if good else FAILED)


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


def _play(saved: SavedScenario, stop: Until | None) -> Played:
    """Run it; with nothing to compare the digest with, first once to know it."""
    from squall.sim.scenarios.file import ScenarioError
    from squall.sim.scenarios.replay import replay as play_again

    try:
        if stop is not None:
            return play_again(saved, until=stop)
        if saved.expected.digest is None:
            saved = replace(saved, expected=play_again(saved).expectation())
        return play_again(saved)
    except ScenarioError as error:
        raise BadInput("SCENARIO", "", str(error)) from None


def _left_out(saved: SavedScenario) -> list[str]:
    """Items of the fault plan that the engine cannot do; a script's on torch: see its report."""
    if saved.engine != "torch" or saved.script is not None:
        return []
    from squall.sim.stock.plan import left_out

    return left_out(saved.faults)


def _check_determinism(saved: SavedScenario) -> Divergence | None:
    from squall.sim.scenarios.replay import first_divergence

    return first_divergence(saved)


def _save(played: Played, text: str) -> None:
    from squall.sim.scenarios.file import dump_scenario
    from squall.sim.scenarios.store import write_synced

    saved = replace(played.saved, expected=played.expectation())
    try:
        write_synced(Path(text), dump_scenario(saved))
    except OSError as error:
        raise BadInput("--save", text, f"cannot write {text!r}: {error.strerror}") from None


def _tell(played: Played, console: Console, *, log: bool) -> None:
    from squall.sim.pictures.narrate import column_log, narrate

    if log:
        for line in column_log(played.records, workers_of(played)):
            console.print(line)
        return
    for text in narrate(played.records):
        console.print(text, markup=False)


def workers_of(played: Played) -> int:
    """How many workers the run had."""
    known = played.saved.workers
    if known is not None:
        return known
    return 1 + max((record[1] for record in played.records), default=-1)


# -- for machines ---------------------------------------------------------------------------------


def replay_json(
    played: Played, stop: Until | None, divergence: Divergence | None, *, checked: bool
) -> str:
    """The object of ``squall replay --json``; its keys are in docs/json.md."""
    from squall.model.events.waiting import to_json

    saved, graph = played.saved, played.wait_graph()
    told: dict[str, Any] = {
        "digest": played.digest,
        "expected_digest": played.expected_digest,
        "digest_matches": played.digest_matches,
        "outcome": played.outcome,
        "violations": [violation.to_json() for violation in played.violations],
        "seed": saved.seed,
        "workers": workers_of(played),
        "operations": saved.operations,
        "faults": len(saved.faults),
        "left_out": _left_out(saved),
        "profile": saved.profile,
        "mutant": saved.expected.mutant,
        "engine": saved.engine,
        "device": saved.device,
        "events": len(played.records),
        "virtual_time_s": played.virtual_time_s,
        "waits": _waits(played),
        "explanation": played.explanation(),
        "wait_graph": None if graph is None else to_json(graph),
    }
    if stop is not None:
        told["stopped"] = _stopped_json(played, stop)
    if checked:
        told["divergence"] = None if divergence is None else divergence.to_json()
    return json_module.dumps(told, allow_nan=False)


def _stopped_json(played: Played, stop: Until) -> dict[str, Any]:
    from squall.sim.pictures.narrate import sentence

    number = len(played.records) - 1
    text = sentence(played.records, number)
    return {"event": number, "text": text, "waiting": stop.waiting}


def _waits(played: Played) -> list[str]:
    if played.run is not None:
        return played.run.waits
    return played.report.waits if played.report is not None else []


# -- for people -----------------------------------------------------------------------------------


def print_replay(
    played: Played,
    console: Console,
    stop: Until | None,
    divergence: Divergence | None,
    *,
    checked: bool,
) -> None:
    """What happened, and whether it is the same run."""
    if played.printed:
        console.print(Text(played.printed.rstrip("\n")))
    for violation in played.violations:
        console.print(Text(str(violation), style="red"))
    if stop is not None:
        _print_stop(played, stop, console)
    if divergence is not None:
        _print_divergence(divergence, console)
    for line in [*_waits(played), *played.explanation()]:
        console.print(Text(line, style="yellow"))
    saved = played.saved
    good = played.ok and played.digest_matches is not False and divergence is None
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("outcome", Text(played.outcome, style="bold green" if good else "bold red"))
    table.add_row("scenario", _scenario_text(played))
    if saved.expected.mutant is not None:
        table.add_row("planted", f"mutant {saved.expected.mutant}")
    matches = {True: "as expected", False: f"expected {played.expected_digest}", None: ""}
    style = "bold red" if played.digest_matches is False else ""
    table.add_row("digest", Text(f"{played.digest}  {matches[played.digest_matches]}", style=style))
    if checked:
        same = "the same to the last event" if divergence is None else "parts from the first"
        table.add_row("a second run", same)
    table.add_row("events", f"{len(played.records):,}")
    table.add_row("virtual time", f"{played.virtual_time_s:.6f} s")
    panel = Panel(
        table,
        title="squall replay",
        title_align="left",
        border_style="green" if good else "red",
        padding=(1, 2),
        width=min(WIDTH, console.width),
    )
    console.print(panel)


def _scenario_text(played: Played) -> str:
    saved = played.saved
    parts = [f"seed {saved.seed}", f"{workers_of(played)} workers"]
    if saved.operations is not None:
        parts.append(f"{saved.operations} operations")
    parts += [f"{len(saved.faults)} faults", f"order {saved.faults.schedule.order}"]
    return ", ".join([*parts, f"latency {saved.network.latency}"])


def _print_stop(played: Played, stop: Until, console: Console) -> None:
    from squall.sim.pictures.narrate import narrate

    records = played.records
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
