"""What ``squall replay`` says of a run, for people and for machines."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.model.events.names import number_of
from squall.model.events.run import NOT_CHECKED, Run
from squall.model.events.waiting import to_json as graph_json
from squall.sim.cli.engine import left_out
from squall.sim.cli.panels import print_panel, summary_table, unchecked_row, verdict
from squall.sim.cli.reports.divergence import print_divergence
from squall.sim.cli.reports.failing import folded, print_program, print_violation, readable
from squall.sim.pictures.narrate import narrate
from squall.sim.scenario import Scenario
from squall.sim.scenarios.replay import Until, digest_matches, explanation
from squall.sim.search.schedules import names_a_seed, seed_name
from squall.sim.world.watch import Divergence

#: events shown at the end of a run that was stopped
_LAST_SHOWN = 8


class KeptAs(NamedTuple):
    """By which name a run is kept, and what failed in it."""

    name: str
    text: str


@dataclass(frozen=True)
class Replayed:
    """A scenario, and what came of it."""

    scenario: Scenario
    run: Run
    #: where the run was to stop
    stop: Until | None = None
    #: whether it was run twice, and where the second run parted from the first
    twice: bool = False
    divergence: Divergence | None = None
    #: with the files as they are now: the run with those that were, of which all that is expected tells
    kept_as: KeptAs | None = None

    @property
    def good(self) -> bool:
        """Whether all holds, and the digest is the expected one: of other files none is."""
        same = self.kept_as is not None or digest_matches(self.scenario, self.run) is not False
        fine = self.run.outcome in ("ok", NOT_CHECKED, "stopped")
        return fine and same and self.divergence is None

    @property
    def other_outcome(self) -> bool:
        """Whether it came to another outcome than is recorded of the scenario."""
        expected, run = self.scenario.expected, self.run
        if expected.outcome is None or run.broken_off:
            return False
        first = run.violations[0] if run.violations else None
        found = (None, None) if first is None else (first.property, first.what)
        known = (expected.property, expected.what)
        return run.outcome != expected.outcome or (first is not None and known != found)


def recorded(scenario: Scenario) -> str:
    """The outcome that is recorded of a scenario, in words."""
    expected = scenario.expected
    text = ": ".join(filter(None, (expected.property, expected.what)))
    return f"{expected.outcome}, {readable(text)}" if text else str(expected.outcome)


def workers_of(scenario: Scenario, run: Run) -> int:
    """How many workers the run had."""
    known = scenario.workers
    if known is not None:
        return known
    return 1 + max((record[1] for record in run.records), default=-1)


def replay_json(replayed: Replayed) -> str:
    """The object of ``squall replay --json``; its keys are in docs/json.md."""
    scenario, run, divergence = replayed.scenario, replayed.run, replayed.divergence
    graph = run.wait_graph()
    told: dict[str, Any] = {
        "digest": run.digest,
        "expected_digest": scenario.expected.digest,
        "digest_matches": digest_matches(scenario, run),
        "outcome": run.outcome,
        "expected_outcome": scenario.expected.outcome,
        "checked": run.unchecked is None,
        "unchecked": run.unchecked,
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
        "wait_graph": None if graph is None else graph_json(graph),
    }
    if replayed.kept_as is not None and scenario.expected.property is not None:
        told["kept"] = {"text": replayed.kept_as.text, "shows": not replayed.other_outcome}
    if replayed.stop is not None:
        told["stopped"] = _stopped_json(run, replayed.stop)
    if replayed.twice:
        told["divergence"] = None if divergence is None else divergence.to_json()
    return json.dumps(told, allow_nan=False)


def _stopped_json(run: Run, stop: Until) -> dict[str, Any]:
    number = len(run.records) - 1
    (text,) = narrate(run, first=number)
    return {"event": number, "text": text, "waiting": stop.waiting}


def print_replay(replayed: Replayed, console: Console, *, full: bool = False) -> None:
    """What happened, and whether it is the same run. ``full``: with the stacks of C++ errors."""
    run = replayed.run
    if run.processes.printed:
        console.print(Text(run.processes.printed.rstrip("\n")))
    lines = explanation(replayed.scenario, run) or run.waits
    if run.violations or lines:
        told = [*map(str, run.violations), *run.waits]
        print_program(replayed.scenario, told, run.waits, console)
    for violation in run.violations:
        waits = lines if run.program is None else run.waits
        print_violation(violation, console, names=run.names, full=full, waits=waits)
    if replayed.stop is not None:
        _print_stop(run, replayed.stop, console)
    if replayed.divergence is not None:
        print_divergence(replayed.divergence, console)
    for line in dict.fromkeys(readable(folded(line, full=full)) for line in lines):
        console.print(Text(line, style="yellow"))
    print_panel(console, _summary(replayed), "squall replay", good=replayed.good)


def _summary(replayed: Replayed) -> Table:
    scenario, run = replayed.scenario, replayed.run
    same = digest_matches(scenario, run)
    table = summary_table()
    table.add_row("outcome", verdict(run.outcome, good=replayed.good))
    if replayed.kept_as is not None and scenario.expected.property is not None:
        _kept_rows(table, replayed, replayed.kept_as)
    elif replayed.other_outcome:
        table.add_row("", Text(f"recorded was: {recorded(scenario)}", style="bold yellow"))
    if replayed.stop is None:
        unchecked_row(table, run.unchecked)
    if not names_a_seed(scenario.note):
        table.add_row("shows", Text(scenario.note))
    table.add_row("scenario", _scenario_text(scenario, run))
    if scenario.expected.mutant is not None:
        table.add_row("planted", f"mutant {scenario.expected.mutant}")
    matches = {True: "as expected", False: f"expected {scenario.expected.digest}", None: ""}
    if replayed.kept_as is not None:
        matches = {
            True: "the same as with the files that were kept",
            False: f"{scenario.expected.digest} with the files that were kept",
            None: "",
        }
    elif same and replayed.other_outcome:
        matches[True] = "equal to the recorded one"
    style = "bold red" if same is False and replayed.kept_as is None else ""
    table.add_row("digest", Text(f"{run.digest}  {matches[same]}", style=style))
    if replayed.twice:
        parts = replayed.divergence is not None
        said = "parts from the first" if parts else "the same to the last event"
        table.add_row("a second run", said)
    table.add_row("events", f"{len(run.records):,}")
    table.add_row("virtual time", f"{run.ended_s:.6f} s")
    return table


def _kept_rows(table: Table, replayed: Replayed, kept: KeptAs) -> None:
    """Whether the failure that was kept shows with the files as they are now."""
    table.add_row("kept was", Text(kept.text))
    if not replayed.other_outcome:
        table.add_row("", "a failure of this kind shows with the files as they are now, too")
        return
    said = "it does not show with the files as they are now"
    table.add_row("", Text(said, style="bold yellow"))
    table.add_row("", Text(shlex.join(["squall", "replay", kept.name]) + " is the run as it was"))
    if replayed.run.outcome == "ok":
        table.add_row("", "squall fuzz tries the files as they are under other seeds")


def _scenario_text(scenario: Scenario, run: Run) -> str:
    parts = [f"seed {seed_name(scenario)}", number_of(workers_of(scenario, run), "worker")]
    if scenario.operations is not None:
        parts.append(number_of(scenario.operations, "operation"))
    parts += [number_of(len(scenario.faults), "fault"), f"order {scenario.faults.schedule.order}"]
    return ", ".join([*parts, f"latency {scenario.world.latency}"])


def _print_stop(run: Run, stop: Until, console: Console) -> None:
    records = run.records
    for line in narrate(run, first=max(0, len(records) - _LAST_SHOWN)):
        console.print(line, markup=False)
    console.print(Text(f"stopped after event {len(records) - 1}; who waits:", style="bold"))
    for line in stop.waiting or ["nobody"]:
        console.print(f"  {line}", markup=False)
