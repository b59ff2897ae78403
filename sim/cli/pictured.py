"""What ``squall timeline`` is to show: a scenario or a script, run once."""

from __future__ import annotations

import shlex
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, NamedTuple

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.bar import Bar
from squall.sim.cli.engine import ready
from squall.sim.cli.scenario import Changes
from squall.sim.cli.script import ScriptRun
from squall.sim.cli.streams import each_warning_once, stdout_to_stderr

if TYPE_CHECKING:
    from squall.sim.pictures.odds import Odds
    from squall.sim.pictures.recording import Recording
    from squall.sim.scenario import Scenario


class Spread(NamedTuple):
    """From how many points of a run its odds are measured, and with how many runs from each."""

    points: int
    times: int


def picture_script(asked: ScriptRun, bar: Bar) -> Recording:
    """Run a script. Raises :class:`BadInput`."""
    from squall.sim.pictures.recording import planned, recording
    from squall.sim.scenarios.engines import ENGINES
    from squall.sim.world.call_lines import CallLines
    from squall.sim.world.watch import watching

    bar.say(description=f"running {asked.script}")
    scenario = asked.scenario()
    ready(asked.engine)
    with stdout_to_stderr(), each_warning_once():
        asked, scenario = asked.measured(scenario)
        with watching(noted := CallLines()):
            ran = ENGINES[scenario.engine].run(scenario, stdout=sys.stderr)
    run = recording(ran, title=str(asked.script), replay=asked.command(), **noted.found)
    run.facts |= {"latency": asked.latency}
    run.planned = planned(run, scenario)
    return run


def picture_scenario(
    scenario: Scenario,
    what: str,
    changes: Changes,
    bar: Bar,
    *,
    spread: Spread | None,
    keep: bool,
) -> tuple[Recording, Odds | None]:
    """Run a scenario; ``keep`` it in the store, and measure its odds over ``spread``, if given.

    ``what`` and ``changes`` are the words that named it. Raises :class:`BadInput`.
    """
    from squall.sim.pictures.odds import measure
    from squall.sim.pictures.recording import explained, facts_of, recording
    from squall.sim.scenarios.failure import expecting
    from squall.sim.scenarios.keeping import kept_failure
    from squall.sim.search.replay_with_mutant import again, planted
    from squall.sim.world.call_lines import CallLines
    from squall.sim.world.watch import watching

    title = f"seed {what}" if what.isdigit() else what
    if scenario.profile:
        title += f", faults {scenario.profile}"
    bar.say(description=f"running {title}")
    with redirect_stdout(sys.stderr), watching(noted := CallLines()):
        ran = again(scenario)
    words = [what, *changes.words()]
    replay = shlex.join(["squall", "replay", *words])
    run = recording(ran, title=title, replay=replay, facts=facts_of(scenario), **noted.found)
    explained(run, scenario, words, kept_failure(scenario, what))
    if keep:
        _keep(expecting(scenario, ran))
    if spread is None:
        return run, None
    if not ran.violations:
        raise BadInput("--odds", "", "this run does not fail: there is no probability to follow")

    def on_run(done: int, of: int) -> None:
        bar.say(description="odds", completed=done, total=of)

    with planted(scenario.expected.mutant):
        return run, measure(scenario, points=spread.points, times=spread.times, on_run=on_run)


def _keep(scenario: Scenario) -> None:
    from squall.sim.scenarios.file import name_of
    from squall.sim.scenarios.own import text_to_write
    from squall.sim.scenarios.store import default_place, write_synced

    folder = default_place().runs
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_synced(folder / f"{name_of(scenario)}.json", text_to_write(scenario))
    except OSError as error:
        problem = f"cannot write into {str(folder)!r}: {error.strerror}"
        raise BadInput("--keep", "", problem) from None
