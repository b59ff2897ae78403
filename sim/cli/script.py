"""The scenario of a script that a command line names."""

from __future__ import annotations

from squall.sim.cli.faults import script_faults
from squall.sim.cli.input import RunOptions
from squall.sim.scenario import Scenario, World
from squall.sim.scripts.run import read_script


def read_script_scenario(options: RunOptions) -> Scenario:
    """The script as it is now, in the world that was asked for. Raises :class:`BadInput`."""
    script = read_script(options.script, options.args, workers=options.workers, check=options.check)
    world = World(latency=options.latency, faults=script_faults(options), device=options.device)
    return Scenario(work=script, seed=options.seed, world=world, engine=options.engine)
