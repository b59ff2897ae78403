"""``squall replay``: a run again, and what came of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.engine import left_out, tell_left_out
from squall.sim.cli.exits import exit_code
from squall.sim.cli.options import (
    AllowScripts,
    AllowUnchecked,
    CheckDeterminism,
    DeviceOfScenario,
    EngineOfScenario,
    FaultsOption,
    Json,
    Mutant,
    file_option,
)
from squall.sim.cli.scenario import Changes, find_scenario, kept_failure
from squall.sim.cli.streams import each_warning_once

if TYPE_CHECKING:
    from squall.model.events.run import Run
    from squall.sim.cli.reports.replay import KeptAs, Replayed
    from squall.sim.scenario import Scenario
    from squall.sim.scenarios.replay import Until
    from squall.sim.world.call_lines import CallLines
    from squall.sim.world.watch import Divergence

RANK = 70
EPILOG = """\
[bold]Examples[/bold]

squall replay 204                           (the scenario of seed 204)

squall replay 204 --faults rough --log

squall replay --legend                      (what the marks of --log say)

squall replay .squall/scenarios/0a1b2c3d.json --until BACKWARD_AUTOGRAD_REQ:2

squall replay 7 --diff 8                    (where do they part?)

squall replay 7 --check-determinism --json
"""


OptionalScenario = Annotated[
    str | None,
    typer.Argument(
        metavar="SEED|FILE",
        help="A seed of squall fuzz, a scenario file, the name of a stored failure, or a script or a "
        "test (FILE::TEST), whose last failure is meant.",
        show_default=False,
    ),
]


def replay(
    scenario: OptionalScenario = None,
    faults: FaultsOption = None,
    mutant: Mutant = None,
    device: DeviceOfScenario = None,
    engine: EngineOfScenario = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="EVENT",
            help="Stop there: the number of an event, t=SECONDS of virtual time, or the name of an "
            "event or message type, the second of it as NAME:2.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tell every event in words.")] = False,
    log: Annotated[
        bool, typer.Option("--log", help="One line an event, a column for each worker.")
    ] = False,
    legend: Annotated[
        bool,
        typer.Option("--legend", help="What the marks of --log say; alone, or before the log."),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Show the C++ stacks of errors, too.")
    ] = False,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="A script or a test with its files as they are now, not as they were when it was kept.",
        ),
    ] = False,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="OTHER",
            help="Run this one too (seed or file) and show the first event at which they part.",
        ),
    ] = None,
    check_determinism: CheckDeterminism = False,
    allow_unchecked: AllowUnchecked = False,
    allow_scripts: AllowScripts = False,
    save: Annotated[
        Path | None, file_option("--save", "Write the scenario and its digest there.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a scenario again and say whether it is the same run: to the last event, or not.

    Exit code 1 if something does not hold, or if the digest is not the expected one; 4 if there
    was nothing to check. A script or a test runs as it was when it was kept, and is told if it was
    edited since; with --now, whether the failure that was kept still shows.
    """
    if scenario is None:
        if not legend:
            raise BadInput(
                "SCENARIO", "", "expected a seed, a scenario file or the name of a stored failure"
            )
        _legend(Console(highlight=False, soft_wrap=True))
        return
    log = log or legend
    wanted = None if until is None else read_until(until)
    if diff is not None and (wanted is not None or check_determinism):
        raise BadInput("--diff", diff, "expected without --until and --check-determinism")
    changes = Changes(faults=faults, mutant=mutant, engine=engine, device=device)
    found = find_scenario(scenario, changes, scripts=allow_scripts, now=now)
    other = None
    if diff is not None:
        other = find_scenario(diff, changes, field="--diff", scripts=allow_scripts)
    again = found()
    console = Console(file=sys.stderr if json else sys.stdout, highlight=False, soft_wrap=True)
    if other is not None:
        code = _diff(again, other(), console, json=json, allow_unchecked=allow_unchecked)
        raise typer.Exit(code)
    divergence = _check_determinism(again) if check_determinism else None
    tell_left_out(again.engine, left_out(again))
    from squall.sim.scenarios.replay import Until

    stop = None if wanted is None else Until(**wanted)
    kept, (again, run, noted) = again, _play(again, stop)
    if stop is not None and not stop.stopped:
        problem = f"there is no {until} in this run, which has {len(run.records)} events"
        raise BadInput("--until", until or "", problem)
    if save is not None:
        _save(again, run, save)
    from squall.sim.cli.reports.replay import Replayed, print_replay, replay_json

    kept_as = _kept_as(scenario, kept) if now and kept.expected.digest else None
    replayed = Replayed(again, run, stop, check_determinism, divergence, kept_as)
    if verbose or log:
        _tell(replayed, noted, console, log=log, legend=legend or console.is_terminal)
    if json:
        typer.echo(replay_json(replayed))
    else:
        print_replay(replayed, console, full=full)
    unchecked = None if stop is not None else run.unchecked
    raise typer.Exit(exit_code(good=replayed.good, unchecked=unchecked, allowed=allow_unchecked))


def read_until(text: str) -> dict[str, Any]:
    """What :class:`squall.sim.scenarios.replay.Until` is made with. Raises :class:`BadInput` unless
    ``text`` names an event."""
    from squall.real.rpc.message_type import MessageType
    from squall.real.tracing import EventType

    if re.fullmatch(r"\d+", text):
        return {"number": int(text)}
    if match := re.fullmatch(r"t=(\d+\.?\d*(?:e-?\d+)?)(?: ?s)?", text):
        return {"time_s": float(match[1])}
    name, _, nth = text.partition(":")
    name = name.replace(" ", "_")
    known = name in EventType.registry or name in MessageType.__members__
    if known and re.fullmatch(r"([1-9]\d*)?", nth):
        return {"name": name, "nth": int(nth or 1)}
    problem = (
        f"expected the number of an event, t=SECONDS, or NAME or NAME:n with the name of an event "
        f"(node_executed) or a message type (BACKWARD_AUTOGRAD_REQ), got {text!r}"
    )
    raise BadInput("--until", text, problem)


def _kept_as(name: str, scenario: Scenario) -> KeptAs:
    """What is known of the run that was kept."""
    from squall.sim.cli.reports.replay import KeptAs, recorded

    kept = kept_failure(Path(name).stem if name.endswith(".json") else name)
    known = recorded(scenario) if kept is None or not kept.text else kept.text.split("\n", 1)[0]
    return KeptAs(name, known)


def _play(scenario: Scenario, stop: Until | None) -> tuple[Scenario, Run, CallLines]:
    """Run it; with nothing to compare the digest with, first once to know it. Of a run that is stopped no lines are
    noted."""
    from squall.sim.scenarios.failure import expecting
    from squall.sim.scenarios.file import ScenarioError
    from squall.sim.search.replay_with_mutant import again
    from squall.sim.world.call_lines import CallLines
    from squall.sim.world.watch import watching

    try:
        with each_warning_once(), watching(noted := CallLines()):
            if stop is not None:
                return scenario, again(scenario, until=stop), noted
            if scenario.expected.digest is None:
                scenario = expecting(scenario, again(scenario))
            return scenario, again(scenario), noted
    except ScenarioError as error:
        raise BadInput("SCENARIO", "", str(error)) from None


def _check_determinism(scenario: Scenario) -> Divergence | None:
    from squall.sim.scenarios.replay import first_divergence
    from squall.sim.search.replay_with_mutant import planted

    with planted(scenario.expected.mutant):
        return first_divergence(scenario)


def _diff(
    one: Scenario, other: Scenario, console: Console, *, json: bool, allow_unchecked: bool
) -> int:
    """Run both scenarios and tell where they part; the exit code."""
    from squall.sim.cli.reports.first_difference import (
        difference_json,
        nothing_compared,
        print_difference,
    )
    from squall.sim.scenarios.replay import first_difference
    from squall.sim.search.replay_with_mutant import again

    with each_warning_once():
        mine, yours = again(one), again(other)
    found = first_difference(mine.records, yours.records)
    if json:
        typer.echo(difference_json(found, mine, yours))
    else:
        print_difference(found, mine, yours, console)
    unchecked = nothing_compared(mine, yours)
    return exit_code(good=found is None, unchecked=unchecked, allowed=allow_unchecked)


def _save(scenario: Scenario, run: Run, file: Path) -> None:
    from squall.sim.scenarios.failure import expecting
    from squall.sim.scenarios.own import text_to_write
    from squall.sim.scenarios.store import write_synced

    try:
        write_synced(file, text_to_write(expecting(scenario, run)))
    except OSError as error:
        problem = f"cannot write {str(file)!r}: {error.strerror}"
        raise BadInput("--save", str(file), problem) from None


def _legend(console: Console) -> None:
    from squall.sim.pictures.narrate import legend

    for line in legend():
        console.print(line, markup=False)


def _tell(
    replayed: Replayed, noted: CallLines, console: Console, *, log: bool, legend: bool
) -> None:
    from squall.sim.cli.reports.replay import workers_of
    from squall.sim.pictures.narrate import column_log, narrate
    from squall.sim.pictures.recording import Recording

    run = Recording(
        replayed.run.records,
        names=replayed.run.names,
        functions=noted.functions,
        places=noted.places,
    )
    if log:
        if legend:
            _legend(console)
        for line in column_log(run, workers_of(replayed.scenario, replayed.run)):
            console.print(line)
        return
    for text in narrate(run):
        console.print(text, markup=False)
