"""What a simulated process does at each round of a ``while`` loop. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from squall.sim.scripts.rounds import AGAIN, ASKED, ROUNDS, Polling
from squall.sim.world.polling_tasks import looks_of

if TYPE_CHECKING:
    from squall.sim.world.scheduler import SimRuntime

#: key in ``SimTask.locals``
POLLING = "polling"


def counting(runtime: SimRuntime) -> Callable[[], None]:
    """The builtin of one process that its loops call; see :mod:`squall.sim.scripts.rounds`."""
    env, left, steps, answers, rounds = runtime.env, ROUNDS, -1, 0, 0

    def another_round() -> None:
        nonlocal left, steps, answers, rounds
        if env.steps_made != steps:  # others have had a turn
            again = looks_of(runtime.running)
            steps, left = env.steps_made, AGAIN if again else ROUNDS
            answers, rounds = runtime.answers, rounds if again else 0
        elif answers != runtime.answers:
            left -= ASKED * (runtime.answers - answers)
            answers = runtime.answers
        left -= 1
        rounds += 1
        if left <= 0:
            frame, task = sys._getframe(1), runtime.running
            task.locals[POLLING] = Polling(frame.f_code.co_filename, frame.f_lineno, rounds)
            runtime.look(patience=1)

    return another_round
