"""PyTorch's compiled engine, a process a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from squall.model.events.run import Run
from squall.real.native.build import library
from squall.sim.faults.plan import Plan
from squall.sim.scenario import Scenario
from squall.sim.stock.plan import kinds_left_out, left_out
from squall.sim.stock.shared import PROGRAMS, begun_fork_server, for_script, shared_fork_server


def _modules(scenario: Scenario) -> tuple[str, ...]:
    """What the process imports that the workers of a scenario are copied from."""
    return PROGRAMS if scenario.script is None else for_script(scenario.script)


class Torch:
    """PyTorch's compiled engine. A process that has imported torch is copied for every worker; it
    is started with the first run, and ends with this process."""

    name = "torch"
    in_this_process = False

    def run(
        self, scenario: Scenario, *, stdout: TextIO | None = None, stderr: TextIO | None = None
    ) -> Run:
        program, world = scenario.program, scenario.world
        if program is None:
            from squall.sim.stock import script as scripts

            return scripts.run_script(
                scenario,
                stdout=stdout,
                stderr=stderr,
                fork_server=shared_fork_server(_modules(scenario)),
            )
        from squall.sim.programs.run import MAX_STEPS
        from squall.sim.stock import program as programs

        order = world.faults.schedule.order
        run = programs.run_native(
            program,
            shared_fork_server(_modules(scenario)),
            plan=world.faults,
            shut_down_early=world.shut_down_early,
            seed=scenario.seed,
            latency=world.latency,
            order="random" if order == "random" else "fifo",
            rpc_timeout_s=world.rpc_timeout_s,
            bandwidth_bytes_per_s=world.bandwidth_bytes_per_s,
            max_steps=MAX_STEPS,
        )
        run.conditions.faulty = world.faults.goes_wrong
        return run

    def ready(self, told: Callable[[str], object] | None = None) -> None:
        """Build the agent if that has not been done. Raises
        :class:`squall.real.native.build.Unavailable`."""
        library(told)

    def begin(self, scenario: Scenario) -> None:
        begun_fork_server(_modules(scenario))

    def left_out(self, plan: Plan) -> list[str]:
        return left_out(plan)

    def kinds_left_out(self) -> list[str]:
        return kinds_left_out()


ENGINE = Torch()
