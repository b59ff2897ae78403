"""``squall fuzz SCRIPT``: one script under many seeds, up to the first that fails."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.progress import Progress

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.reports.why import looking
from squall.sim.cli.script import ScriptRun
from squall.sim.library.campaign import SHRINK_S, Around, Finding, search


def fuzz_script(asked: ScriptRun, seeds: range, *, as_json: bool) -> Finding | None:
    """Say what came of it; the failure, if there is one. Raises :class:`BadInput`."""
    tried, finding, notes = searched(asked, seeds)
    if as_json:
        print(json.dumps(_json(tried, finding), indent=1))
    elif finding is None:
        print(nothing_found(asked, tried, notes))
    else:
        print("\n".join(finding.lines()))
    return finding


def nothing_found(asked: ScriptRun, tried: int, notes: list[str]) -> str:
    found = [f"{asked.script}: {tried:,} runs, nothing is wrong in any of them"]
    return "\n".join([*found, *(f"hint: {note}" for note in notes)])


def searched(
    asked: ScriptRun, seeds: range, *, shrink_s: float = SHRINK_S, drawn: bool = True
) -> tuple[int, Finding | None, list[str]]:
    """Run a script for each seed up to the first failure: how many runs held, that failure, and what was noted in the
    last run, such as references that are never dropped. ``drawn``: latencies are, for each seed. Raises
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
    console = Console(stderr=True)
    notes: list[str] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(asked.script.name, total=len(seeds))
        try:
            tried, finding = search(
                (around.scenario(script, seed) for seed in seeds),
                shrink_s=shrink_s,
                on_run=lambda count: bar.update(task, completed=count),
                on_why=looking(bar),
                on_last=lambda run: notes.extend(run.inner.hints),
            )
        except NotImplementedError as lacks:
            raise BadInput("SCRIPT", str(asked.script), str(lacks)) from None
    return tried, finding, notes


def _json(tried: int, finding: Finding | None) -> dict[str, Any]:
    return {
        "runs": tried,
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
