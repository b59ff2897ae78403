"""What a simulated process does at each round of a ``while`` loop. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from squall.sim.scripts.rounds import ROUNDS, Polling
from squall.sim.world.looks import looks_of

if TYPE_CHECKING:
    from squall.sim.world.scheduler import SimRuntime

#: key in ``SimTask.locals``
POLLING = "polling"


def counting(runtime: SimRuntime) -> Callable[[], None]:
    """The builtin of one process that its loops call; see :mod:`squall.sim.scripts.rounds`."""
    env, count, steps = runtime.env, 0, -1

    def another_round() -> None:
        nonlocal count, steps
        if env.steps_made != steps:  # others have had a turn
            steps, count = env.steps_made, 0
        count += 1
        if count >= ROUNDS:
            frame, task = sys._getframe(1), runtime.running
            rounds = ROUNDS * (looks_of(task) + 1)
            task.locals[POLLING] = Polling(frame.f_code.co_filename, frame.f_lineno, rounds)
            runtime.look(patience=1)

    return another_round
