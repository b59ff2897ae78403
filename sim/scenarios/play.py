"""Plays a scenario: its run, and what that must come to. Whatever runs a scenario does it here."""

from __future__ import annotations

import io
from typing import TextIO

from squall.model.events.run import Run
from squall.model.one_process.outcome import Outcome
from squall.sim.scenario import Scenario
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.world.watch import DEPTH, Comparer, Diverged, Divergence, Recorder, watching

#: frames that are kept of each step of a run that is run again; ``squall replay`` keeps more
_FEW_FRAMES = 6
#: what scenarios that were interpreted ahead must come to, by the scenario's id; each is taken once
ahead: dict[int, tuple[Scenario, Outcome]] = {}


def play(
    scenario: Scenario,
    *,
    times: int = 1,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> Run:
    """Run a scenario ``times`` times (once or twice), and a program in one process, too.

    A second run is compared with the first as it goes, and stopped at the first difference
    (``run.judged.divergence``). What no program should cause is in :attr:`Run.crash` of what comes
    back; what a script prints goes to ``stdout`` and ``stderr``.
    """
    expected = None if scenario.program is None else expected_of(scenario)
    if times == 1:
        run = ENGINES[scenario.engine].run(scenario, stdout=stdout, stderr=stderr)
    else:
        run, divergence = play_twice(scenario, depth=_FEW_FRAMES, stdout=stdout, stderr=stderr)
        digest = run.digest
        run.judged.digests = (digest, digest) if divergence is None else (digest,)
        run.judged.divergence = None if divergence is None else str(divergence)
    if expected is not None:
        run.outcomes.expected = expected
        run.cluster = None  # nothing needs the workers any more: their memory can be freed
    return run


def play_twice(
    scenario: Scenario,
    *,
    depth: int = DEPTH,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> tuple[Run, Divergence | None]:
    """The first of two runs, and where the second, of which nothing is printed, parts from it. ``depth``:
    frames that are kept of each step. After an interrupt there is no second one."""
    engine = ENGINES[scenario.engine]
    first = Recorder(depth=depth)
    with watching(first):
        run = engine.run(scenario, stdout=stdout, stderr=stderr)
    divergence = None
    if run.broken_off != "interrupted":
        comparer = Comparer(first.steps)
        try:
            with watching(comparer), campaign_settings(scenario.world.device):
                engine.run(scenario, stdout=io.StringIO(), stderr=io.StringIO())
            comparer.finish()
        except Diverged as diverged:
            divergence = diverged.divergence
    first.steps.clear()  # it and the run refer to each other
    return run, divergence


def expected_of(scenario: Scenario) -> Outcome:
    """What the scenario of a program must come to, as one process has it."""
    from squall.model.one_process.interpreter import interpret  # of no use to a script

    known = ahead.pop(id(scenario), None)
    if known is not None:
        return known[1]
    assert scenario.program is not None, "scripts are run by their engine, and checked as they are"
    return interpret(scenario.program)
