"""The program of a scenario as what is explored, with all properties checked on every execution."""

from __future__ import annotations

from collections.abc import Callable

import squall.sim.programs.run  # noqa: F401  what runs programs, for processes that are copied of this one
from squall.model.checks.registry import check
from squall.model.coverage.sometimes import sometimes
from squall.model.events.run import Run
from squall.model.one_process.interpreter import interpret
from squall.real.tracing import TABLES_COUNTED
from squall.sim.engines.port import ENGINE as PORT
from squall.sim.explore.faults import check_explorable, sent_in
from squall.sim.explore.state import shown
from squall.sim.explore.target import Ended
from squall.sim.scenario import Scenario
from squall.sim.world.controlled_time import Chooser


class ProgramSubject:
    """Runs the program of ``scenario`` on the port, in its world but for latencies and bandwidth:
    any order of messages is explored, whatever made it. Raises ValueError for a script, and for
    faults that cannot be explored."""

    def __init__(self, scenario: Scenario) -> None:
        if scenario.program is None:
            raise ValueError("the scenario holds a script, and this is for programs")
        check_explorable(scenario.faults)
        self.scenario = scenario
        self._expected = interpret(scenario.program)
        #: called with each run that came to its end
        self.on_run: Callable[[Run], object] = _nothing

    def __call__(self, chooser: Chooser) -> Ended:
        run = PORT.run(self.scenario, chooser=chooser)
        run.outcomes.expected = self._expected
        run.cluster = None
        run.violations = check(run)
        self.on_run(run)
        return Ended(_state(run), tuple(run.violations), sent_in(run), sometimes(run))


def _nothing(run: Run) -> None:
    pass


def _state(run: Run) -> str:
    counted = [run.records[number][4] for number in run.of(TABLES_COUNTED)]
    waits = sorted(shown(RuntimeError(line)) for line in run.waits)
    crash = None if run.crash is None else shown(RuntimeError(run.crash))
    recovered = None if run.outcomes.recovery is None else shown(run.outcomes.recovery.got)
    return " ".join(
        (shown(run.outcomes.got), shown(counted), shown(waits), str(crash), str(recovered))
    )
