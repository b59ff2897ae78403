"""What is to go wrong, as objects: items, and :func:`plan`, which puts them together.

>>> import squall
>>> faults = squall.faults
>>> plan = faults.plan(
...     faults.drop(types=("PYTHON_CALL",), src=1, dst=0, nth=(1,)),
...     faults.delay(seconds=0.01, spread_s=0.5, probability=0.1),
...     faults.partition(groups=((0,), (1, 2)), from_s=0.2, until_s=3.0),
...     faults.crash(worker=2, moment=faults.moment(event="gradients_received", worker=2)),
...     heal_s=20.0,
... )
>>> len(plan)
4

``squall.run(step, faults=plan)`` runs under it. Times are seconds of virtual time from when all
workers have joined their group; workers are ranks. docs/faults.md has all kinds and their fields; one
that makes no sense raises ValueError, which names the field and what would be right.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from squall.sim.faults.fault import Fault
from squall.sim.faults.file import dump_plan, load_plan
from squall.sim.faults.kinds.allocation import Allocation as allocation
from squall.sim.faults.kinds.bandwidth import Bandwidth as bandwidth
from squall.sim.faults.kinds.clock_skew import ClockSkew as clock_skew
from squall.sim.faults.kinds.corrupt import Corrupt as corrupt
from squall.sim.faults.kinds.crash import Crash as crash
from squall.sim.faults.kinds.delay import Delay as delay
from squall.sim.faults.kinds.drop import Drop as drop
from squall.sim.faults.kinds.duplicate import Duplicate as duplicate
from squall.sim.faults.kinds.fail import Fail as fail
from squall.sim.faults.kinds.fifo import Fifo as fifo
from squall.sim.faults.kinds.flapping import Flapping as flapping
from squall.sim.faults.kinds.garbage import Garbage as garbage
from squall.sim.faults.kinds.hold import Hold as hold
from squall.sim.faults.kinds.latency_spike import LatencySpike as latency_spike
from squall.sim.faults.kinds.loss import Loss as loss
from squall.sim.faults.kinds.partition import Partition as partition
from squall.sim.faults.kinds.pause import Pause as pause
from squall.sim.faults.kinds.pool_size import PoolSize as pool_size
from squall.sim.faults.kinds.raising import Raise as raising
from squall.sim.faults.kinds.reset import Reset as reset
from squall.sim.faults.kinds.shutdown import Shutdown as shutdown
from squall.sim.faults.kinds.slow_cpu import SlowCpu as slow_cpu
from squall.sim.faults.kinds.slow_start import SlowStart as slow_start
from squall.sim.faults.messages import Selector as messages
from squall.sim.faults.moments import Moment as moment
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.world.schedule import FIFO, Schedule
from squall.sim.world.schedule import Schedule as order

__all__ = [
    "Plan",
    "allocation",
    "bandwidth",
    "clock_skew",
    "corrupt",
    "crash",
    "delay",
    "drop",
    "dump",
    "duplicate",
    "fail",
    "fifo",
    "flapping",
    "garbage",
    "hold",
    "latency_spike",
    "load",
    "loss",
    "messages",
    "moment",
    "order",
    "partition",
    "pause",
    "plan",
    "pool_size",
    "raising",
    "reset",
    "shutdown",
    "slow_cpu",
    "slow_start",
]


def plan(
    *items: Fault,
    heal_s: float | None = None,
    begin: Literal["ready", "launch"] = "ready",
    schedule: Schedule = FIFO,
) -> Plan:
    """A plan with these items. At ``heal_s`` faults end; None: never. ``begin``: times count from when
    all workers have joined ("ready"), or from the start ("launch"). ``schedule``: in which
    :func:`order` things happen that could at one instant.

    Raises ValueError for what makes no sense.
    """
    changes: dict[str, Any] = {"heal_s": heal_s, "begin": begin, "schedule": schedule}
    return NO_FAULTS.with_items(_with_ids(items), **changes)


def _with_ids(items: tuple[Fault, ...]) -> list[Fault]:
    """Items that draw need numbers of their own; those that say none get one."""
    taken = {getattr(item, "id", 0) for item in items}
    found: list[Fault] = []
    free = 0
    seen: set[int] = set()
    for item in items:
        if item.draws and getattr(item, "id", 0) in seen:
            while free in taken:
                free += 1
            taken.add(free)
            numbered: Any = item
            item = replace(numbered, id=free)
        if item.draws:
            seen.add(getattr(item, "id", 0))
        found.append(item)
    return found


def load(path: str | Path) -> Plan:
    """The plan in a file. Raises ValueError or OSError."""
    return load_plan(Path(path))


def dump(plan: Plan) -> str:
    """A plan as the text of a file."""
    return dump_plan(plan, indent=1)
