"""Workers as processes: they pause, slow down and end, and their clocks may be wrong.

A runtime asks :class:`Processes` before it lets anything of a worker run: a task that starts or
goes on, a timer that has come due, a message that arrives.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from squall.real.runtime import TaskOwner
from squall.sim.world.delivery import Delivery
from squall.sim.world.primitives import SimTask, SimTimer
from squall.sim.world.virtual_time import Callbacks, Due, VirtualTime

#: seconds of virtual time that a step of a task takes at factor 1
_STEP_S = 1e-5


class Clock(NamedTuple):
    """A clock that showed ``offset_s`` too much at the start and runs at ``rate``."""

    offset_s: float = 0.0
    rate: float = 1.0

    def shows(self, true_s: float) -> float:
        return true_s * self.rate + self.offset_s

    def healed(self, true_s: float) -> Clock:
        """The clock that goes on from what this one shows then, as fast as the true time."""
        return Clock(self.shows(true_s) - true_s)


class _State:
    __slots__ = ("dead", "factor", "passing", "paused", "waiting")

    def __init__(self) -> None:
        self.dead = False
        self.paused = False
        #: how slow it is; 0: its steps take no time
        self.factor = 0.0
        #: tasks whose step has taken its time and that go on now
        self.passing: set[SimTask] = set()
        #: what has come due while it was paused, in that order
        self.waiting: list[tuple[Due, Callbacks]] = []


class Controlled(Protocol):
    """The runtime whose workers pause and end."""

    env: VirtualTime
    #: every task that has not ended
    tasks: dict[SimTask, None]
    processes: Processes | None

    def freeze(self, task: SimTask) -> None:
        """Let a task that does not run never run again, and nobody wait for its end."""


class Processes:
    """Which workers may run, and how fast."""

    def __init__(self, runtime: Controlled) -> None:
        self._runtime = runtime
        self._states: dict[TaskOwner, _State] = {}

    # -- what happens to a worker -------------------------------------------------------

    def pause(self, worker: TaskOwner) -> None:
        """Nothing of ``worker`` runs until :meth:`resume`."""
        self._state(worker).paused = True

    def resume(self, worker: TaskOwner) -> None:
        """What has come due meanwhile happens now, in its order."""
        state = self._state(worker)
        if not state.paused:
            return
        state.paused = False
        waiting, state.waiting = state.waiting, []
        for event, callbacks in waiting:
            if isinstance(event, SimTimer):
                if event.cancelled:
                    continue
                event.held = False
            self._runtime.env.put(event, callbacks, 0.0)

    def slow(self, worker: TaskOwner, factor: float) -> None:
        """A step of a task of ``worker`` takes ``factor`` times 10 us from now on."""
        self._state(worker).factor = factor

    def step_s(self, worker: TaskOwner | None) -> float:
        """Seconds that a step of its tasks takes."""
        state = self._states.get(worker) if worker is not None else None
        return 0.0 if state is None else state.factor * _STEP_S

    def computes_s(self, worker: TaskOwner | None, seconds: float) -> float:
        """How long that takes there which takes ``seconds`` elsewhere."""
        state = self._states.get(worker) if worker is not None else None
        return seconds if state is None else seconds * (state.factor or 1.0)

    def kill(self, worker: TaskOwner) -> None:
        """The process of ``worker`` ends: nothing of it runs any more, and no clean-up either."""
        state = self._state(worker)
        state.dead = True
        state.waiting.clear()
        for task in [task for task in self._runtime.tasks if task.worker is worker]:
            self._runtime.freeze(task)

    def is_dead(self, worker: TaskOwner) -> bool:
        state = self._states.get(worker)
        return state is not None and state.dead

    # -- for the scheduler ----------------------------------------------------------------

    def hold(self, worker: TaskOwner | None, task: SimTask, callbacks: Callbacks) -> bool:
        """Whether ``task``, which is due, does not go on now; if later, that is seen to."""
        state = self._states.get(worker) if worker is not None else None
        if state is None:
            return False
        if state.dead:
            if task in self._runtime.tasks:
                self._runtime.freeze(task)
            return True
        if state.paused:
            state.passing.discard(task)
            state.waiting.append((task, callbacks))
            return True
        if task in state.passing:
            state.passing.discard(task)
            return False
        if state.factor > 0.0:
            state.passing.add(task)
            self._runtime.env.put(task, callbacks, state.factor * _STEP_S)
            return True
        return False

    def hold_message(
        self, worker: TaskOwner | None, delivery: Delivery, callbacks: Callbacks
    ) -> bool:
        """The same for a message, which arrives without taking time."""
        state = self._states.get(worker) if worker is not None else None
        if state is None or not (state.dead or state.paused):
            return False
        if state.paused and not state.dead:
            state.waiting.append((delivery, callbacks))
        return True

    def is_paused(self, worker: TaskOwner | None) -> bool:
        """Whether it goes on later."""
        state = self._states.get(worker) if worker is not None else None
        return state is not None and state.paused and not state.dead

    def hold_timer(self, timer: SimTimer, callbacks: Callbacks) -> bool:
        """The same for a timer, which takes no time."""
        worker = timer.worker
        state = self._states.get(worker) if worker is not None else None
        if state is None or not (state.dead or state.paused):
            return False
        timer.held = True
        if state.dead:
            timer.fn = None
        else:
            state.waiting.append((timer, callbacks))
        return True

    def _state(self, worker: TaskOwner) -> _State:
        state = self._states.get(worker)
        if state is None:
            state = self._states[worker] = _State()
        return state


def processes_of(runtime: Controlled) -> Processes:
    """Those of a runtime, made when somebody first asks."""
    if runtime.processes is None:
        runtime.processes = Processes(runtime)
    return runtime.processes
