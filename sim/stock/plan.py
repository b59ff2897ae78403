"""What of a fault plan the engine ``torch`` can do, and what it leaves out."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from squall.sim.faults.plan import (
    AnyInnerFault,
    AnyWorkerFault,
    Crash,
    Garbage,
    Pause,
    Plan,
    Schedule,
)

_SCHEDULE = "schedule: the order of a worker's threads is PyTorch's"


def left_out(plan: Plan) -> list[str]:
    """Items of a plan that :func:`supported` leaves out, as ``group[position]: kind``."""
    kept = supported(plan)
    lines = [
        f"{group}[{at}]: {type(item).__name__}"
        for group, at, item in plan.items()
        if not any(item is other for other in getattr(kept, group))
    ]
    if plan.schedule not in (Schedule(), Schedule(order="random")):
        lines.append(_SCHEDULE)
    return lines


def script_left_out(plan: Plan) -> list[str]:
    """Everything that a plan has: scripts run on this engine without faults."""
    lines = [f"{group}[{at}]: {type(item).__name__}" for group, at, item in plan.items()]
    return [*lines, *([_SCHEDULE] if plan.schedule != Schedule() else [])]


def kinds_left_out() -> list[str]:
    """What :func:`supported` leaves out of any plan, as ``group: kind``."""
    kinds = [
        f"{group}: {kind.__name__}"
        for group, union, kept in (
            ("workers", AnyWorkerFault, (Crash, Pause)),
            ("inner", AnyInnerFault, (Garbage,)),
        )
        for kind in get_args(union)
        if kind not in kept
    ]
    return [*kinds, "workers: Crash that restarts", "schedule"]


def supported(plan: Plan) -> Plan:
    """What of a plan concerns messages, links and whole processes, which is all that can go wrong
    around a process whose inside is PyTorch's own."""
    return replace(
        plan,
        workers=tuple(
            item
            for item in plan.workers
            if isinstance(item, Pause) or (isinstance(item, Crash) and item.restart_after_s is None)
        ),
        inner=tuple(item for item in plan.inner if isinstance(item, Garbage)),
        schedule=Schedule(),
    )
