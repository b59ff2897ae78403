"""Runs a scenario again, and compares the result with what was expected.

run = replay(load_scenario(path))
assert digest_matches(scenario, run)
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from squall.model.checks.registry import check
from squall.model.events.digest import Record
from squall.model.events.hang import explain_timeout, timeouts
from squall.model.events.run import Run, Violation
from squall.sim.scenario import Scenario
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.play import play, play_twice
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.scenarios.sources import as_it_was
from squall.sim.world.deadlock import explain
from squall.sim.world.real_time import TooLongError, time_limit
from squall.sim.world.watch import Divergence, Watcher, watching

#: how many calls that timed out are explained
_TIMEOUTS_TOLD = 3


def replay(
    scenario: Scenario,
    *,
    watcher: Watcher | None = None,
    seconds: float | None = None,
    until: Until | None = None,
) -> Run:
    """Run a scenario to its end, or to where ``until`` stops it, and check it.

    A script that was kept finds the files that it imports as they were. A bug that the scenario names
    is for the caller to plant: see sim/search/replay_with_mutant.py. What a script prints is in
    ``run.processes.printed``. ``seconds``: real time that it may take, after which the run counts as one
    that does not end (for the main thread); to build its engine is no part of that. Raises ValueError
    or OSError for what cannot be run, and :class:`squall.real.native.build.Unavailable`.
    """
    engine = ENGINES[scenario.engine]
    engine.ready()
    limit = (
        contextlib.nullcontext()
        if seconds is None
        else time_limit(seconds, elsewhere=not engine.in_this_process)
    )
    watcher = until if until is not None else watcher
    watched = contextlib.nullcontext() if watcher is None else watching(watcher)
    out = io.StringIO()
    try:
        with (
            campaign_settings(scenario.world.device),
            watched,
            limit,
            as_it_was(scenario) as scenario,
        ):
            # Only a second run can show that something is not deterministic.
            twice = scenario.expected.property == "determinism" and watcher is None
            run = play(scenario, times=2 if twice else 1, stdout=out, stderr=out)
    except Stopped as stop:
        return _broken_off(scenario, stop.records, "stopped")
    except TooLongError:
        run = _broken_off(scenario, [], "")
        run.crash = f"it was still running after {seconds:g} s of real time"
        run.violations = [Violation("progress", "the run broke off", "an end", run.crash)]
        return run
    run.processes.printed = out.getvalue()
    run.violations = check(run)
    return run


def _broken_off(scenario: Scenario, records: list[Record], how: str) -> Run:
    """A run that did not come to its end."""
    script = None if scenario.script is None else scenario.script.path
    run = Run(records, script=script, engine=scenario.engine, broken_off=how)
    run.ended_s = records[-1][0] if records else 0.0
    return run


def digest_matches(scenario: Scenario, run: Run) -> bool | None:
    """Whether it is the run that was saved; None if its digest is not known."""
    expected = scenario.expected.digest
    return None if expected is None else expected == run.digest


def explanation(scenario: Scenario, run: Run) -> list[str]:
    """Lines that say why the run hangs, or why calls timed out although there were no faults."""
    if run.when_stuck.waiting:
        return run.why()
    if not run.violations or scenario.faults:
        return []
    first = list(islice(timeouts(run.records), _TIMEOUTS_TOLD))
    lines = [line for number in first for line in explain_timeout(run.records, number)]
    return list(dict.fromkeys(lines))


# -- stopping on the way --------------------------------------------------------------------------


class Stopped(BaseException):
    """The run has reached the event at which it was to stop. No code under test handles it."""

    def __init__(self, records: list[Record]) -> None:
        super().__init__(f"stopped after event {len(records) - 1}")
        self.records = records


class Until(Watcher):
    """Stops a run at an event: of that number, or the first one from that virtual time on, or the
    ``nth`` (from 1) of an event type, or the ``nth`` sending of a message type.

    ``waiting`` then has a line for each task that waits at that moment.
    """

    def __init__(
        self,
        *,
        number: int | None = None,
        time_s: float | None = None,
        name: str | None = None,
        nth: int = 1,
    ) -> None:
        super().__init__()
        self._number, self._time_s, self._name, self._left = number, time_s, name, nth
        self.records: list[Record] = []
        self.waiting: list[str] = []
        self.stopped = False

    def event(self, record: tuple[Any, ...]) -> None:
        if self.stopped:
            return
        self.records.append(record)
        if not self._is_here(record):
            return
        self.stopped = True
        assert self.runtime is not None
        tasks = [task for task in self.runtime.tasks if task.waiting_on is not None]
        self.waiting = explain(self.runtime, [t for t in tasks if t.glet is not None])
        self.stop(Stopped(self.records))

    def _is_here(self, record: tuple[Any, ...]) -> bool:
        if self._number is not None:
            return len(self.records) > self._number
        if self._time_s is not None:
            return bool(record[0] >= self._time_s)
        type, values = record[3], record[4]
        sent = type.name == "message_sent" and values[type.fields.index("type")] == self._name
        if type.name == self._name or sent:
            self._left -= 1
        return self._left <= 0


# -- two runs -------------------------------------------------------------------------------------


def first_divergence(scenario: Scenario) -> Divergence | None:
    """Run a scenario twice, comparing every draw and event; the first difference, if there is
    one."""
    with campaign_settings(scenario.world.device), as_it_was(scenario) as scenario:
        out = io.StringIO()
        return play_twice(scenario, stdout=out, stderr=out)[1]


class FirstDifference(NamedTuple):
    """The number of the first event that differs between two runs, and both events; None for a run
    that has ended."""

    number: int
    one: Record | None
    other: Record | None


def first_difference(one: Sequence[Record], other: Sequence[Record]) -> FirstDifference | None:
    """The first event that two runs do not share; None if they are the same to the end."""
    for number, (mine, yours) in enumerate(zip_longest(one, other)):
        if mine != yours:
            return FirstDifference(number, mine, yours)
    return None
