"""Runs a script file as a test wants it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from squall.model.events.run import Run
from squall.sim.faults.plan import NO_FAULTS, Order, Plan, Schedule
from squall.sim.names import EngineName
from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scripts.read_script import read_script
from squall.sim.world.latency import DEFAULT_LATENCY


def script_scenario(
    path: Path,
    *args: str,
    workers: int | None = None,
    seed: int = 0,
    latency: str = DEFAULT_LATENCY,
    order: Order = "fifo",
    faults: Plan = NO_FAULTS,
    check: bool = True,
    go_on: bool = False,
    engine: EngineName = "port",
) -> Scenario:
    """The scenario of a script file; ``order`` is for one without faults."""
    plan = faults if faults else Plan(schedule=Schedule(order=order))
    script = read_script(path, args, workers=workers, check=check)
    return Scenario(
        work=replace(script, go_on=go_on),
        seed=seed,
        world=World(latency=latency, faults=plan),
        engine=engine,
    )


def run_file(
    path: Path,
    *args: str,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    **options: object,
) -> Run:
    """Run a script file; ``options`` are those of :func:`script_scenario`."""
    scenario = script_scenario(path, *args, **options)  # type: ignore[arg-type]
    return ENGINES[scenario.engine].run(scenario, stdout=stdout, stderr=stderr)


_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")


def alike(printed: str, expected: str) -> bool:
    """Whether two texts are equal but for the last digits of numbers, by which processors differ."""
    found, wanted = map(_NUMBER.findall, (printed, expected))
    same = _NUMBER.sub("", printed) == _NUMBER.sub("", expected)
    return same and all(
        math.isclose(float(one), float(other), rel_tol=1e-3, abs_tol=1e-6)
        for one, other in zip(found, wanted, strict=True)
    )
