"""Squall's own engine: all workers in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from squall.model.events.run import Run
from squall.sim.faults.plan import Plan
from squall.sim.scenario import Scenario

if TYPE_CHECKING:
    from squall.sim.world.controlled_time import Chooser


class Port:
    """Squall's own engine: all workers in this process."""

    name = "port"
    in_this_process = True

    def run(
        self,
        scenario: Scenario,
        *,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        chooser: Chooser | None = None,
    ) -> Run:
        """As every engine. ``chooser`` chooses what happens next."""
        program, world = scenario.program, scenario.world
        # Neither waits for what only the other needs: a script begins sooner.
        if program is None:
            from squall.sim.scripts.run import run_script

            return run_script(scenario, stdout=stdout, stderr=stderr, chooser=chooser)
        from squall.sim.programs.run import MAX_STEPS, run_program

        run = run_program(
            program,
            faults=world.faults,
            shut_down_early=world.shut_down_early,
            raises=False,
            seed=scenario.seed,
            latency=world.latency,
            bandwidth_bytes_per_s=world.bandwidth_bytes_per_s,
            rpc_timeout_s=world.rpc_timeout_s,
            skip_handshakes=world.skip_handshakes,
            max_steps=MAX_STEPS,
            chooser=chooser,
            device=world.device,
        )
        run.conditions.faulty = world.faults.goes_wrong
        run.computing.stream_events = tuple(run.cluster.stream_events)
        return run

    def ready(self, told: Callable[[str], object] | None = None) -> None:
        """There is nothing to make ready."""

    def begin(self, scenario: Scenario) -> None:
        """All of it is in this process."""

    def left_out(self, plan: Plan) -> list[str]:
        return []

    def kinds_left_out(self) -> list[str]:
        return []


ENGINE = Port()
