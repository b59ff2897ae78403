"""Which loops of a script poll, and why they get no other answer."""

from __future__ import annotations

from typing import NamedTuple

from squall.sim.scripts.compat.polling import POLLING
from squall.sim.scripts.rounds import Polling
from squall.sim.world.deadlock import explain
from squall.sim.world.polling_tasks import looks_of
from squall.sim.world.primitives import SimTask
from squall.sim.world.scheduler import SimRuntime


class Livelock(NamedTuple):
    """In words, with the place of the first loop as a traceback has it."""

    task: SimTask
    text: str
    where: str


def livelock(runtime: SimRuntime) -> Livelock | None:
    """None if no task polls."""
    polling = [task for task in runtime.tasks if looks_of(task) and POLLING in task.locals]
    if not polling:
        return None
    loops: list[Polling] = [task.locals[POLLING] for task in polling]
    left = runtime.env.pending - sum(task.waiting_on == "sleep" for task in polling)
    if left > 0:
        why = f"nothing has come of the {left} things that are still to happen"
    else:
        others = explain(runtime, [task for task in runtime.tasks if task not in polling])
        why = "; ".join(["nothing else is left to happen that could change it", *others])
    text = "; ".join([*map(str, loops), why])
    return Livelock(polling[0], text, loops[0].place)
