"""A task that looks again and again whether something has happened, and does nothing else.

Who waits like that has to let time pass, or nobody else gets a turn: a little at first, and more and
more the longer nothing comes of it. Imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squall.sim.world.primitives import SimTask

#: seconds of virtual time that pass at a look, and at most while it has not looked for long
_STEP_S, _STEP_MAX_S = 1e-6, 1e-3
#: later, a part of the time for which it has looked, but no more than so many seconds
_PART, _LONGEST_S = 0.01, 1.0
#: what a task does again and again: it looks, or sends what is refused at once
LOOKS, REFUSALS = "looks without a wait", "refusals without a wait"


class Looks:
    """Of one task, or thread: how often it has looked, or was refused, since it waited for anything else."""

    __slots__ = ("at_s", "count", "since_s")

    def __init__(self) -> None:
        self.count = 0
        #: virtual time of the first of them, and of the last
        self.since_s = self.at_s = -1.0

    def again(self, now_s: float, patience: int) -> float:
        """Count one more; what passes at it, in seconds. It doubles after each ``patience`` looks."""
        if not self.count:
            self.since_s = now_s
        self.count += 1
        self.at_s = now_s
        step_s = _STEP_S * 2.0 ** min(self.count // patience, 10)
        if step_s < _STEP_MAX_S:
            return step_s
        return min(max(_STEP_MAX_S, _PART * (now_s - self.since_s)), _LONGEST_S)


def looks_of(task: SimTask, kind: str = LOOKS) -> int:
    """How often a task has looked, or was refused, since it waited for something else."""
    looks: Looks | None = task.locals.get(kind)
    # A look is the task's last wait, unless it has waited for something else since; while it begins,
    # which others may see who end a run, the wait is still that of the look before.
    return looks.count if looks is not None and task.waiting_since <= looks.at_s else 0


def looked(task: SimTask, now_s: float, patience: int, kind: str = LOOKS) -> float:
    """Count one more of a task; what passes at it, in seconds of virtual time."""
    looks: Looks = task.locals.setdefault(kind, Looks())
    if not looks_of(task, kind):
        looks.count = 0
    return looks.again(now_s, patience)
