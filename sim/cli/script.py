"""The run of a script that a command line asks for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.faults import Faults
from squall.sim.names import Device, EngineName
from squall.sim.world.latency import DEFAULT_LATENCY

if TYPE_CHECKING:
    from squall.sim.faults.plan import Plan
    from squall.sim.scenario import Scenario

#: in an argument of the script: what each rank finds there is its own
PLACEHOLDERS = ("{rank}", "{world_size}")


@dataclass(frozen=True, kw_only=True)
class ScriptRun:
    """What was asked for, checked. ``workers`` None leaves it to the script."""

    script: Path
    args: tuple[str, ...] = ()
    workers: int | None = None
    seed: int = 0
    latency: str = DEFAULT_LATENCY
    device: Device = "cpu"
    engine: EngineName = "port"
    faults: Faults | None = None
    check: bool = True

    def scenario(self) -> Scenario:
        """The script as it is now, in this world. Raises :class:`BadInput`."""
        from squall.sim.scenario import Scenario, World
        from squall.sim.scripts.run import read_script

        placeholder = next((n for n in PLACEHOLDERS for word in self.args if n in word), None)
        if self.workers is None and placeholder is not None:
            problem = (
                f"expected their number, since {placeholder} in the script's arguments needs it"
            )
            raise BadInput("--workers", "", problem)
        script = read_script(self.script, self.args, workers=self.workers, check=self.check)
        world = World(latency=self.latency, faults=self.plan(), device=self.device)
        return Scenario(work=script, seed=self.seed, world=world, engine=self.engine)

    def plan(self) -> Plan:
        """What is to go wrong.

        Raises :class:`BadInput` for a plan with other workers, and for a profile without a number
        of workers.
        """
        from squall.sim.faults.plan import NO_FAULTS

        if self.faults is None:
            return NO_FAULTS
        if self.faults.profile is None:
            return self.faults.plan_for(self.workers)
        text = self.faults.text
        if self.workers is None:
            raise BadInput("--faults", text, f"{text} needs the number of workers: give --workers")
        from squall.real.rpc.constants import DEFAULT_RPC_TIMEOUT_S
        from squall.sim.search.draw import draw_faults

        return draw_faults(self.faults.profile, self.seed, self.workers, DEFAULT_RPC_TIMEOUT_S)

    def command(self) -> str:
        """The command line that repeats this run, for a shell."""
        words = ["squall", "run", str(self.script)]
        if self.workers is not None:
            words += ["--workers", str(self.workers)]
        words += ["--seed", str(self.seed)]
        if self.latency != DEFAULT_LATENCY:
            words += ["--latency", self.latency]
        if self.faults is not None:
            words += ["--faults", self.faults.text]
        if self.device != "cpu":
            words += ["--device", self.device]
        if self.engine != "port":
            words += ["--engine", self.engine]
        if not self.check:
            words.append("--no-check")
        if self.args:
            words += ["--", *self.args]
        return shlex.join(words)
