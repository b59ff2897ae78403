"""What becomes of workers as processes: they pause, get slow, end; and their clocks.

The scheduler asks :class:`Processes` before it lets anything of a worker run: a task that starts
or goes on, a timer that has come due, a message that arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from squall.real.runtime import TaskOwner
    from squall.real.worker import Worker
    from squall.sim.world.network import Network
    from squall.sim.world.primitives import SimTimer
    from squall.sim.world.scheduler import SimRuntime

_Callbacks = Sequence[Callable[[Any], None]]


class Clock(NamedTuple):
    """A clock that showed ``offset_s`` too much at the start and runs at ``rate``."""

    offset_s: float = 0.0
    rate: float = 1.0

    def shows(self, true_s: float) -> float:
        return true_s * self.rate + self.offset_s

    def healed(self, true_s: float) -> Clock:
        """It goes on from what it shows then, as fast as the others: no clock jumps back."""
        return Clock(self.shows(true_s) - true_s)


class _State:
    __slots__ = ("dead", "passing", "paused", "step_s", "waiting")

    def __init__(self) -> None:
        self.dead = False
        self.paused = False
        #: seconds of virtual time that a step of its tasks takes
        self.step_s = 0.0
        #: events whose step has taken its time and that go on now
        self.passing: set[Any] = set()
        #: what has come due while it was paused, in that order
        self.waiting: list[tuple[Any, _Callbacks]] = []


class Processes:
    """Which workers may run, and how fast."""

    def __init__(self, runtime: SimRuntime) -> None:
        self._runtime = runtime
        self._states: dict[TaskOwner, _State] = {}

    # -- what happens to a worker -------------------------------------------------------

    def pause(self, worker: Worker) -> None:
        """Nothing of ``worker`` runs until :meth:`resume`."""
        self._state(worker).paused = True

    def resume(self, worker: Worker) -> None:
        """What has come due meanwhile happens now, in its order."""
        state = self._state(worker)
        if not state.paused:
            return
        state.paused = False
        waiting, state.waiting = state.waiting, []
        for event, callbacks in waiting:
            if hasattr(event, "held"):  # a timer
                if event.fn is None:  # cancelled
                    continue
                event.held = False
            self._runtime.schedule(event, list(callbacks), 0.0)

    def slow(self, worker: Worker, step_s: float) -> None:
        """A step of a task of ``worker`` takes ``step_s`` seconds from now on, 0 for no time."""
        self._state(worker).step_s = step_s

    def kill(self, worker: Worker) -> None:
        """The process of ``worker`` ends: nothing of it runs any more, and no clean-up either."""
        state = self._state(worker)
        state.dead = True
        state.waiting.clear()
        for task in [task for task in self._runtime.tasks if task.worker is worker]:
            self._runtime.freeze(task)

    def is_dead(self, worker: Worker) -> bool:
        state = self._states.get(worker)
        return state is not None and state.dead

    # -- for the scheduler ----------------------------------------------------------------

    def hold(self, worker: TaskOwner | None, event: Any, callbacks: _Callbacks) -> bool:
        """Whether ``event``, which is due, does not happen now; if later, that is seen to."""
        state = self._states.get(worker) if worker is not None else None
        if state is None:
            return False
        if state.dead:
            if event in self._runtime.tasks:
                self._runtime.freeze(event)
            return True
        if state.paused:
            state.passing.discard(event)
            state.waiting.append((event, callbacks))
            return True
        if event in state.passing:
            state.passing.discard(event)
            return False
        if state.step_s > 0.0:
            state.passing.add(event)
            self._runtime.schedule(event, list(callbacks), state.step_s)
            return True
        return False

    def hold_message(self, worker: TaskOwner | None, event: Any, callbacks: _Callbacks) -> bool:
        """The same for a message, which arrives without taking time."""
        state = self._states.get(worker) if worker is not None else None
        if state is None or not (state.dead or state.paused):
            return False
        if state.paused and not state.dead:
            state.waiting.append((event, callbacks))
        return True

    def hold_timer(self, timer: SimTimer) -> bool:
        """The same for a timer, which takes no time."""
        worker = timer.worker
        state = self._states.get(worker) if worker is not None else None
        if state is None or not (state.dead or state.paused):
            return False
        timer.held = True
        if state.dead:
            timer.fn = None
        else:
            state.waiting.append((timer, [type(timer).fire]))
        return True

    def _state(self, worker: TaskOwner) -> _State:
        state = self._states.get(worker)
        if state is None:
            state = self._states[worker] = _State()
        return state


def processes_of(runtime: SimRuntime) -> Processes:
    """Those of a runtime, made when somebody first asks."""
    if runtime.processes is None:
        runtime.processes = Processes(runtime)
    return runtime.processes


def crash(network: Network, worker: Worker, *, silent: bool) -> bool:
    """End the process of ``worker``; False if it has ended in this way before.

    Its peers see their connections close at once; or, ``silent``, they see nothing until there is
    a new process of its rank.
    """
    processes = processes_of(network.runtime)
    if processes.is_dead(worker):
        return False
    agent = worker.agent
    if agent is not None:
        if silent:
            agent.is_running = False
            network.vanish(worker)
        else:
            agent.abandon()
    processes.kill(worker)
    if worker.rref_context is not None:
        # Its references go whenever somebody collects garbage, and nobody is to be told.
        worker.rref_context.abandon()
    worker.tracer.enabled = False  # what is cleared away when the run is over is no event
    return True
