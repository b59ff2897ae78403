"""What a simulated process does at each round of a ``while`` loop. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from squall.sim.scripts.rounds import AGAIN, ROUNDS, Polling, rounds_of
from squall.sim.world.looks import looks_of

if TYPE_CHECKING:
    from squall.sim.world.scheduler import SimRuntime

#: key in ``SimTask.locals``
POLLING = "polling"


def counting(runtime: SimRuntime) -> Callable[[], None]:
    """The builtin of one process that its loops call; see :mod:`squall.sim.scripts.rounds`."""
    env, left, steps = runtime.env, ROUNDS, -1

    def another_round() -> None:
        nonlocal left, steps
        if env.steps_made != steps:  # others have had a turn
            steps, left = env.steps_made, AGAIN if looks_of(runtime.running) else ROUNDS
        left -= 1
        if left <= 0:
            frame, task = sys._getframe(1), runtime.running
            rounds = rounds_of(looks_of(task) + 1)
            task.locals[POLLING] = Polling(frame.f_code.co_filename, frame.f_lineno, rounds)
            runtime.look(patience=1)

    return another_round
