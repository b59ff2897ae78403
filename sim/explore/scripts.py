"""The script of a scenario as what is explored, with all properties checked on every execution."""

from __future__ import annotations

import io

from squall.model.checks.registry import check
from squall.model.coverage.sometimes import sometimes
from squall.model.events.run import EXITED, Run
from squall.sim.engines.port import ENGINE as PORT
from squall.sim.explore.faults import check_explorable, sent_in
from squall.sim.explore.state import shown
from squall.sim.explore.target import Ended
from squall.sim.scenario import Scenario
from squall.sim.world.controlled_time import Chooser, NotExplorableError


class ScriptSubject:
    """Runs the script of ``scenario`` on the port, from the beginning each time.

    What it prints belongs to the final state, whoever prints first. Raises ValueError for a program,
    and for faults that cannot be explored; :class:`NotExplorableError` when called, if no group of
    workers ever stands, or one that workers join at any time.
    """

    def __init__(self, scenario: Scenario) -> None:
        if scenario.script is None:
            raise ValueError("the scenario holds a program, and this is for scripts")
        check_explorable(scenario.faults)
        self.scenario = scenario

    def __call__(self, chooser: Chooser) -> Ended:
        out = io.StringIO()
        run = PORT.run(self.scenario, stdout=out, stderr=io.StringIO(), chooser=chooser)
        if not (run.conditions.chosen_from or run.broken_off):
            raise NotExplorableError(_why_no_group(run))
        run.violations = check(run)
        errors = sorted(f"{each.worker} {each.type}: {each.message}" for each in run.errors)
        waits = sorted(shown(RuntimeError(line)) for line in run.waits)
        left = run.rpc_groups.leaked_rrefs, run.rpc_groups.leaked_contexts
        printed = sorted(out.getvalue().splitlines())
        state = shown((printed, errors, waits, sorted(run.processes.exit_codes.items()), left))
        return Ended(state, tuple(run.violations), sent_in(run), sometimes(run))


def _why_no_group(run: Run) -> str:
    """Why there was nothing to order in a run: what is ordered are the messages of a group."""
    if run.errors:
        first = run.errors[0]
        said = first.message if first.type == EXITED else f"{first.type}: {first.message}"
        return f"no RPC group stands, since a process ended with {said}"
    if not run.workers:
        return (
            "no process joins an RPC group (rpc.init_rpc), so that there are no messages whose order "
            "could matter"
        )
    return f"its RPC group is never complete: {run.workers} of its workers have joined"
