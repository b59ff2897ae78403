"""A task that looks again and again whether something has happened, and does nothing else.

Who waits like that has to let time pass, or nobody else gets a turn: a little at first, and more and
more the longer nothing comes of it. Imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squall.sim.world.primitives import SimTask

#: seconds of virtual time that pass at a look, and at most
_STEP_S, STEP_MAX_S = 1e-6, 1e-3
_LOOKS = "looks without a wait"
_NEVER = (-1.0, 0)


def step_s(looks: int, patience: int) -> float:
    """What passes at a look, after so many without a wait; it doubles after each ``patience``."""
    return min(_STEP_S * 2.0 ** min(looks // patience, 10), STEP_MAX_S)


def looks_of(task: SimTask) -> int:
    """How often a task has looked since it waited for anything else."""
    at, looks = task.locals.get(_LOOKS, _NEVER)
    # A look is the task's last wait, unless it has waited for something else since; while it begins,
    # which others may see who end a run, the wait is still that of the look before.
    return looks if task.waiting_since <= at else 0


def looked(task: SimTask, now_s: float, patience: int) -> float:
    """Count one more look of a task; what passes at it, in seconds of virtual time."""
    looks = looks_of(task) + 1
    task.locals[_LOOKS] = (now_s, looks)
    return step_s(looks, patience)
