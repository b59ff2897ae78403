"""``squall fuzz SCRIPT``: one script under many seeds, up to the first that fails."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import typer
from rich.progress import BarColumn, MofNCompleteColumn

from squall.model.events.names import number_of
from squall.model.events.run import NOT_CHECKED
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.engine import ready
from squall.sim.cli.exits import INTERRUPTED, exit_code
from squall.sim.cli.reports.why import looking
from squall.sim.cli.script import ScriptRun
from squall.sim.library.campaign import SHRINK_S, Around, Searched, search

#: what runs of PyTorch's engine do not show
_THREADS = "threads never wait for a processor on engine torch; --engine port tries that too, where it can run the script"


def fuzz_script(
    asked: ScriptRun, seeds: range, *, as_json: bool, allow_unchecked: bool = False
) -> NoReturn:
    """Say what came of it. Raises :class:`BadInput`, or :class:`typer.Exit`."""
    ready(asked.engine)
    found, notes = searched(asked, seeds)
    if as_json:
        print(json.dumps(_json(found), indent=1))
    elif found.finding is None:
        print(nothing_found(asked, found, notes))
    else:
        print("\n".join(found.finding.lines()))
    if found.finding is not None and found.finding.interrupted:
        raise typer.Exit(INTERRUPTED)
    good = found.finding is None
    raise typer.Exit(exit_code(good=good, unchecked=found.unchecked, allowed=allow_unchecked))


def nothing_found(asked: ScriptRun, searched: Searched, notes: list[str]) -> str:
    said = "nothing is wrong in any of them"
    if searched.unchecked is not None:
        said = f"{NOT_CHECKED}: {searched.unchecked}"
    found = [f"{asked.script}: {number_of(searched.held, 'run')}, {said}"]
    if asked.engine == "torch":
        notes = [*notes, _THREADS]
    return "\n".join([*found, *(f"hint: {note}" for note in notes)])


def searched(
    asked: ScriptRun, seeds: range, *, shrink_s: float = SHRINK_S, drawn: bool = True
) -> tuple[Searched, list[str]]:
    """Run a script for each seed up to the first failure: what came of it, and what was noted in the last run, such as references that are never dropped. ``drawn``: latencies are, for each seed. Raises
    :class:`BadInput`."""
    scenario = asked.scenario()
    script, faults = scenario.script, asked.faults
    assert script is not None, "that is what was asked for"
    around = Around(
        engine=asked.engine,
        profile=None if faults is None else faults.profile,
        plan=scenario.world.faults
        if faults is not None and faults.profile is None
        else Around.plan,
        latency=None if drawn else asked.latency,
    )
    notes: list[str] = []
    columns = "{task.description}", BarColumn(), MofNCompleteColumn()
    bar = Bar(*columns, total=len(seeds), description=asked.script.name)
    with bar, looking() as look:
        try:
            found = search(
                (around.scenario(script, seed) for seed in seeds),
                shrink_s=shrink_s,
                on_run=lambda count: bar.say(completed=count),
                on_why=look,
                on_last=lambda run: notes.extend(run.inner.hints),
            )
        except NotImplementedError as lacks:
            raise BadInput("SCRIPT", str(asked.script), str(lacks)) from None
    return found, notes


def _json(searched: Searched) -> dict[str, Any]:
    finding = searched.finding
    return {
        "runs": searched.held,
        "checked": searched.unchecked is None,
        "unchecked": searched.unchecked,
        "failure": None
        if finding is None
        else {
            "seed": finding.run.scenario.seed,
            "problems": finding.problems,
            "shrink_runs": finding.shrink_runs,
            "file": finding.file,
            "replay": finding.replay,
            "why": None if finding.why is None else finding.why.to_json(),
        },
    }
