"""The engines that a scenario can name, and what each of them does with one.

    run = ENGINES[scenario.engine].run(scenario)

``port`` is squall's own implementation, ``torch`` PyTorch's compiled engine, a process a worker.
Programs and scripts run on both, and both give a :class:`~squall.model.events.run.Run`. What an
engine cannot do with a scenario it says beforehand (:meth:`Engine.left_out`) and in the run.
"""

from __future__ import annotations

from typing import Any, Protocol, TextIO

from squall.model.events.run import Run
from squall.sim.faults.plan import Plan, Schedule
from squall.sim.programs.faults import run_with_faults
from squall.sim.programs.run import run_program
from squall.sim.scenario import Scenario
from squall.sim.scripts.run import run_script
from squall.sim.stock.plan import kinds_left_out, left_out, script_left_out
from squall.sim.stock.program import run_native
from squall.sim.stock.script import run_script as run_stock_script
from squall.sim.stock.shared import shared_zygote

#: steps of the scheduler that a program may take; the largest takes some thousands
MAX_STEPS = 400_000


class Engine(Protocol):
    """What runs a scenario."""

    name: str
    #: whether the workers are in this process, which then does all the work
    in_this_process: bool

    def run(
        self, scenario: Scenario, *, stdout: TextIO | None = None, stderr: TextIO | None = None
    ) -> Run:
        """Run it to its end. What a script prints goes to ``stdout`` and ``stderr``.

        What no program should cause is in :attr:`Run.crash`. Raises ValueError or OSError for what
        cannot be run.
        """

    def left_out(self, plan: Plan, *, of_script: bool = False) -> list[str]:
        """What of a plan cannot be done, in a program or in a script: ``group[position]: kind``."""

    def kinds_left_out(self) -> list[str]:
        """Kinds of faults that can never be done: ``group: kind``."""


def goes_wrong(plan: Plan) -> bool:
    """Whether a program runs under faults, and trains again when they are over; any order of tasks
    that a run may have by itself is none."""
    return len(plan) > 0 or plan.schedule not in (Schedule(), Schedule(order="random"))


class Port:
    """Squall's own engine: all workers in this process."""

    name = "port"
    in_this_process = True

    def run(
        self, scenario: Scenario, *, stdout: TextIO | None = None, stderr: TextIO | None = None
    ) -> Run:
        program, world = scenario.program, scenario.world
        if program is None:
            return run_script(scenario, stdout=stdout, stderr=stderr)
        options: dict[str, Any] = {
            "raises": False,
            "seed": scenario.seed,
            "latency": world.latency,
            "bandwidth_bytes_per_s": world.bandwidth_bytes_per_s,
            "rpc_timeout_s": world.rpc_timeout_s,
            "skip_handshakes": world.skip_handshakes,
            "max_steps": MAX_STEPS,
        }
        if goes_wrong(world.faults):
            run = run_with_faults(program, world.faults, **options)
        else:
            early = world.shut_down_early
            run = run_program(program, faults=world.faults, shut_down_early=early, **options)
        run.faulty = goes_wrong(world.faults)
        return run

    def left_out(self, plan: Plan, *, of_script: bool = False) -> list[str]:
        return []

    def kinds_left_out(self) -> list[str]:
        return []


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
            return run_stock_script(scenario, stdout=stdout, stderr=stderr)
        order = world.faults.schedule.order
        run = run_native(
            program,
            shared_zygote(),
            plan=world.faults,
            shut_down_early=world.shut_down_early,
            seed=scenario.seed,
            latency=world.latency,
            order="random" if order == "random" else "fifo",
            rpc_timeout_s=world.rpc_timeout_s,
            bandwidth_bytes_per_s=world.bandwidth_bytes_per_s,
            max_steps=MAX_STEPS,
        )
        run.faulty = goes_wrong(world.faults)
        return run

    def left_out(self, plan: Plan, *, of_script: bool = False) -> list[str]:
        return script_left_out(plan) if of_script else left_out(plan)

    def kinds_left_out(self) -> list[str]:
        return kinds_left_out()


ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Port(), Torch())}
