"""What the operators of a script take on this machine: measured in a run, and kept in the scenario."""

from __future__ import annotations

import io
from dataclasses import replace

from squall.sim.faults.plan import NO_FAULTS
from squall.sim.scenario import Scenario
from squall.sim.scenarios.engines import ENGINES
from squall.sim.world.compute import EVERY, compute_text, mean_seconds


def measured(scenario: Scenario) -> Scenario:
    """The scenario with the durations of its script's operators, for which it is run once.

    What that run prints is dropped, and nothing goes wrong in it. Operators that it does not come to,
    under faults for instance, take what one takes in the mean. Raises what a run of it raises.
    """
    script = scenario.script
    assert script is not None, "there is nothing to measure of a program"
    trial = replace(
        scenario,
        work=replace(script, compute="0", check=False),
        world=replace(scenario.world, faults=NO_FAULTS),
    )
    printed = io.StringIO()
    computed = (
        ENGINES[scenario.engine].run(trial, stdout=printed, stderr=printed).computing.by_operator
    )
    seconds = mean_seconds(computed)
    if computed:
        times, total = (sum(column) for column in zip(*computed.values(), strict=True))
        seconds |= mean_seconds({EVERY: (int(times), total)})
    return replace(scenario, work=replace(script, compute=compute_text(seconds)))
