"""SimRuntime: the runtime seam answered by greenlets in virtual time.

Every task is a greenlet; the hub (whoever called :meth:`SimRuntime.run`) makes the steps of
:class:`~squall.sim.world.virtual_time.VirtualTime` and switches to the task whose turn it is. A
task runs until it waits, so user code stays ordinary blocking code. All of it happens in one
operating-system thread, but for what :mod:`squall.sim.world.local_passes` says.

Order among tasks that are ready at one instant: ``fifo``, or ``random`` (seeded), in which every
primitive of the runtime may also let another task in between, or what a
:class:`~squall.sim.world.schedule.Schedule` says.
"""

from __future__ import annotations

import itertools
import random as _random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

from squall.real import tracing
from squall.real.runtime import NO_CONTEXT, TaskOwner, current_task_variable
from squall.sim.world import interrupts, local_passes
from squall.sim.world.ordering import FifoExcept, PctOrder, RandomOrder, Recorded
from squall.sim.world.places import frames_of
from squall.sim.world.polling_tasks import REFUSALS, looked, looks_of
from squall.sim.world.primitives import Scheduler, SimEvent, SimLock, SimTask, SimTimer
from squall.sim.world.processes import Clock, Processes
from squall.sim.world.schedule import FIFO, Order, Schedule
from squall.sim.world.streams import WatchedRandom
from squall.sim.world.virtual_time import VirtualTime
from squall.sim.world.watch import current

if TYPE_CHECKING:
    from squall.real.worker import Worker

#: chance that a scheduling point lets another ready task in, in random order
PREEMPTION = 0.1
#: in a busy order: how often a task that could go on waits for a processor, one of these for each worker, in some runs
#: a tenth of it, which reaches the later parts of long ones; for how long at most; and how long all of them together,
#: which is less than the limits of calls
_LOADS, _OF_THEM, _LATE_S, _ALL_LATE_S = (0.0, 0.2, 0.5), (1.0, 1.0, 1.0, 0.1), 1.0, 10.0
#: refused messages without a wait after which a task is taken to try without end
_REFUSED = 1000
#: what an answer of a store takes in a busy order
_ANSWER_S = 1e-3


class Isolation(Protocol):
    """Swaps what a thread or a process would own privately when a task is switched."""

    #: what a new task has as ``isolated``
    @property
    def fresh(self) -> object: ...

    def leave(self, task: SimTask) -> None: ...
    def enter(self, task: SimTask) -> None: ...


class SimRuntime(Scheduler):
    """Virtual time and tasks for any number of workers."""

    def __init__(
        self,
        *,
        seed: int = 0,
        order: Order | Schedule = "fifo",
        isolation: Isolation | None = None,
        time: VirtualTime | None = None,
    ) -> None:
        watcher = current()
        if watcher is not None:
            watcher.runtime = self
            time = watcher.clock() if time is None else time
        self.env = env = VirtualTime() if time is None else time
        self.seed = seed
        self.isolation = isolation
        self._fresh = isolation.fresh if isolation is not None else None
        self.tracer: tracing.Tracer = tracing.NULL_TRACER
        #: pauses, slows down and ends workers; None as long as nobody does
        self.processes: Processes | None = None
        #: the clocks of workers that do not show the true time, or None
        self.clocks: dict[Worker, Clock] | None = None
        self._schedule = schedule = order if isinstance(order, Schedule) else Schedule(order=order)
        drawn = schedule.order in ("random", "busy")
        env.order_stream = self.random("schedule") if drawn else None
        self.waits_for_cpu = self.random("busy") if schedule.order == "busy" else None
        self._loads: dict[TaskOwner | None, float] = {None: 0.0}
        self._of_them = self.waits_for_cpu.choice(_OF_THEM) if self.waits_for_cpu else 0.0
        self._all_late_s, self.late_by = 0.0, {}
        #: how often a task has done what others can see
        self.answers = 0
        if schedule.order == "pct":
            env.ordering = PctOrder(self, depth=schedule.depth, steps=schedule.steps)
        elif schedule.late or schedule.yields:
            env.ordering = FifoExcept(schedule)
        self.preemptive = env.order_stream is not None or (
            env.ordering is not None and env.ordering.preemptive
        )
        #: how often a task let time pass only because it looked for something
        self.looks = 0
        #: about how many steps a run may take, or None
        self.max_steps: int | None = None
        self._ids = itertools.count()
        #: every task that has not ended, in order of creation
        self.tasks: dict[SimTask, None] = {}
        self._foreground = 0
        #: stands for the hub itself, so that there always is a running task
        self.hub_task = SimTask(self, next(self._ids), "hub", None, True)
        self.running: SimTask = self.hub_task
        self._hub: greenlet | None = None
        #: in a copy of the process, where nobody waits for anything
        self._time_stands_still = False
        self._failure: BaseException | None = None
        #: the task that is being killed: it may not wait any more
        self._dying: SimTask | None = None
        self._undead: list[greenlet] = []
        #: tasks of processes that have ended: nothing of them runs, not even what cleans up
        self._frozen: list[SimTask] = []
        #: greenlets whose task has ended, to be used again: making one costs more than a switch
        self._idle: list[greenlet] = []
        # One list serves all: who takes an event from the queue only forgets the list.
        self._turn_callbacks = [self._turn]
        self._fire_callbacks = [self._fire]

    # -- Runtime ------------------------------------------------------------------------

    def now(self) -> float:
        if self.clocks is not None and self.running.worker in self.clocks:
            return self.clocks[self.running.worker].shows(self.env.now)
        return self.env.now

    def sleep(self, seconds: float) -> None:
        self._sleep(seconds + self._late_s(self.running))

    def _sleep(self, seconds: float) -> None:
        task = self.running
        if task is self.hub_task:
            raise RuntimeError("a scheduler callback would sleep")
        if self._time_stands_still:
            return
        if task is self._dying:
            self._switch_to_hub(task)  # which throws again
        env = self.env
        task.waiting_on = "sleep"
        task.waiting_since = env.now
        if self.clocks is not None and task.worker in self.clocks:
            seconds /= self.clocks[task.worker].rate
        env.put(task, self._turn_callbacks, seconds)
        self._switch_to_hub(task)

    def spawn(
        self,
        fn: Callable[..., object],
        *args: Any,
        name: str,
        worker: TaskOwner | None = None,
        daemon: bool = True,
        cause: int | None = None,
    ) -> SimTask:
        here = current_task_variable.get(None)
        if worker is None and here is not None:
            worker = here.worker
        task = SimTask(self, next(self._ids), name, worker, daemon)
        if here is not None:
            task.parent = here.id
            task.cause = here.cause
        if cause is not None:
            task.cause = cause
        task.isolated = self._fresh
        # What to run travels here until the task starts.
        task.waiting_on = (fn, args)
        self.tasks[task] = None
        if not daemon:
            self._foreground += 1
        self.ready(task)
        if self.preemptive:
            self.checkpoint()
        return task

    def lock(self, what: object = "") -> SimLock:
        return SimLock(self, what)

    def event(self, what: object = "") -> SimEvent:
        return SimEvent(self, what)

    def call_later(self, delay_s: float, fn: Callable[[], object]) -> SimTimer:
        timer = SimTimer(self.env, fn, self.running.worker)
        if self.clocks is not None and timer.worker in self.clocks:
            delay_s /= self.clocks[timer.worker].rate
        self.env.put(timer, self._fire_callbacks, delay_s)
        return timer

    def call_later_for_nobody(
        self, delay_s: float, fn: Callable[[], object], pauses_with: TaskOwner | None = None
    ) -> None:
        """What is no worker's: it comes when whoever asked for it has ended, and goes by no worker's clock."""
        self.env.put(SimTimer(self.env, fn, pauses_with), self._fire_callbacks, delay_s)

    def random(self, *name: object) -> _random.Random:
        # A string seeds by its SHA-512, which no PYTHONHASHSEED changes.
        watcher, seed = current(), repr((self.seed, *name))
        return _random.Random(seed) if watcher is None else WatchedRandom(seed, watcher)

    def checkpoint(self) -> None:
        task = self.running
        if not self.preemptive or task is self.hub_task or task is self._dying:
            return
        stream = self.env.order_stream
        if stream is not None:
            if stream.random() < PREEMPTION:
                self.sleep(0.0)
        elif self.env.ordering is not None and self.env.ordering.yields():
            self.sleep(0.0)

    def woke_others(self) -> None:
        self.checkpoint()
        self._wait_for_cpu()

    def seen_by_others(self) -> None:
        """The running task has done what others can see: in a busy order that takes a little, so that who does it again
        and again lets others go on, and it may have to wait for a processor."""
        self.answers += 1
        self._wait_for_cpu()

    def _wait_for_cpu(self) -> None:
        """In a busy order the running task may have to wait for a processor."""
        task = self.running
        if self.waits_for_cpu is not None and task not in (self.hub_task, self._dying):
            self._sleep(_ANSWER_S + self._late_s(task))

    def poll(self) -> None:
        if self._hub is not None:
            self.look()

    # -- Scheduler ------------------------------------------------------------------------

    def ready(self, task: SimTask) -> None:
        late_s = 0.0 if self.waits_for_cpu is None else self._late_s(task)
        self.env.put(task, self._turn_callbacks, late_s)

    def _late_s(self, task: SimTask) -> float:
        """How long a task that could go on waits for a processor."""
        stream = self.waits_for_cpu
        if stream is None:
            return 0.0
        if task.worker not in self._loads:
            self._loads[task.worker] = self._of_them * stream.choice(_LOADS)
        late = stream.random() < self._loads[task.worker] and self._all_late_s < _ALL_LATE_S
        late_s = self.late_by[task.id] = stream.random() * _LATE_S if late else 0.0
        self._all_late_s += late_s
        return late_s

    def block(
        self, task: SimTask, on: object, waiters: deque[SimTask], timeout: float | None
    ) -> bool:
        if task is self._dying:
            # Its last wake-up may still be queued, and a task is queued once at a time.
            if task in waiters:
                waiters.remove(task)
            self._switch_to_hub(task)  # which throws again
        task.waiting_on = on
        task.waiting_since = self.env.now
        if timeout is None:
            self._switch_to_hub(task)
            return True
        timed_out = False

        def give_up() -> None:
            nonlocal timed_out
            if task in waiters:
                waiters.remove(task)
                timed_out = True
                self.ready(task)

        timer = self.call_later(max(timeout, 0.0), give_up)
        self._switch_to_hub(task)
        timer.cancel()
        return not timed_out

    def fail(self, error: BaseException) -> None:
        self._failure = error

    # -- for scripts, whose code asks for the time itself -----------------------------------

    def look(self, patience: int = 1000) -> None:
        """The running task asks whether something has happened, and may do so again and again: let a
        little virtual time pass, more after each ``patience`` looks without a wait."""
        if self.running is not self.hub_task:
            self.looks += 1
            self.late_by.pop(self.running.id, None)
            self._sleep(looked(self.running, self.env.now, patience))

    def refused(self) -> None:
        """What the running task sends is refused at once, and it may send it again and again: let a little virtual
        time pass if that has happened a thousand times without a wait, or nothing else ever happens."""
        if self.running is not self.hub_task:
            passes_s = looked(self.running, self.env.now, _REFUSED // 10, REFUSALS)
            if looks_of(self.running, REFUSALS) > _REFUSED:
                self.looks += 1
                self._sleep(passes_s)

    # -- running --------------------------------------------------------------------------

    def run(self, *, until_idle: bool = True, max_time_s: float | None = None) -> None:
        """Step until nothing can happen any more.

        With ``until_idle`` False, stop as soon as every task that is no daemon has ended.
        ``max_time_s``: stop when virtual time gets there. Raises what a scheduler callback
        raised, and :class:`~squall.sim.world.virtual_time.Livelock`; tasks that still wait are
        left in :attr:`tasks` (see :meth:`stuck`).
        """
        if self._hub is not None:
            raise RuntimeError("the runtime is already running")
        local_passes.install()
        if not until_idle and self._foreground == 0:
            return
        self._hub = getcurrent()
        try:
            with interrupts.ends(self):
                for _ in self.env.steps(until_s=max_time_s, max_steps=self.max_steps):
                    if self._failure is not None:
                        failure, self._failure = self._failure, None
                        raise failure
                    if not until_idle and self._foreground == 0:
                        break
        finally:
            self._hub = None

    @property
    def foreground(self) -> int:
        """Tasks that are no daemons and have not ended."""
        return self._foreground

    def stuck(self) -> list[SimTask]:
        """The tasks that wait, daemons left out, in order of creation."""
        return [task for task in self.tasks if not task.daemon]

    def record_schedule(self) -> Recorded:
        """Keep a log of what goes before what; to be asked for before anything runs."""
        env = self.env
        inner = env.ordering
        if env.order_stream is not None:
            inner, env.order_stream = RandomOrder(env.order_stream, PREEMPTION), None
        timeless = self._schedule.timeless or self._schedule.order == "pct"
        recorded = Recorded(inner or FifoExcept(FIFO), timeless=timeless)
        env.ordering = recorded
        return recorded

    def freeze(self, task: SimTask) -> None:
        """Let a task that does not run never run again, and nobody wait for its end."""
        if self.tasks.pop(task, self) is None:
            if not task.daemon:
                self._foreground -= 1
            self._frozen.append(task)

    def held_by_frozen(self) -> list[object]:
        """The variables of all functions that frozen tasks are in."""
        innermost = [None if task.glet is None else task.glet.gr_frame for task in self._frozen]
        stacks = itertools.chain.from_iterable(map(frames_of, innermost))
        return [value for frame in stacks for value in frame.f_locals.values()]

    def forbid_waiting(self) -> None:
        """A task that would wait gets a RuntimeError from here on, and one that would sleep goes on
        at once: for a copy of the process."""
        self._hub = None
        self._time_stands_still = True

    def close(self) -> None:
        """Kill every task that is left."""
        self._hub = getcurrent()
        for task in self._frozen:
            task.daemon = True
            self.tasks[task] = None
        self._frozen.clear()
        try:
            while self.tasks:
                for task in list(self.tasks):
                    self.kill(task)
            while self._idle:
                self._idle.pop().switch()
            self.env.clear()
        finally:
            self._hub = None

    def kill(self, task: SimTask) -> None:
        """End a task that waits or has not started; its ``finally`` blocks run and may not wait."""
        if task not in self.tasks:
            return
        glet = task.glet
        before, self.running = self.running, task
        self._dying = task
        if glet is not None:
            glet.parent = getcurrent()
            for _ in range(100):  # a finally block that waits is thrown at again
                if task.glet is None:
                    break
                if self.isolation is not None:
                    self.isolation.enter(task)
                glet.throw(GreenletExit)
            if task.glet is not None:
                # It catches every GreenletExit. If it were freed, greenlet would throw once more,
                # outside of the run.
                self._undead.append(glet)
        self._dying = None
        self.running = before
        self._ended(task, None)

    @property
    def is_killing(self) -> bool:
        """Whether the running task is being killed: then nobody hears of what it raises."""
        return self.running is self._dying

    # -- inside ---------------------------------------------------------------------------

    def _fire(self, timer: SimTimer) -> None:
        fn = timer.fn
        if fn is None:
            self.env.cancelled -= 1
        elif self.processes is None or not self.processes.hold_timer(timer, self._fire_callbacks):
            timer.fn = None
            fn()

    def _turn(self, task: SimTask) -> None:
        """Let a task begin, or go on."""
        glet = task.glet
        if glet is None and task not in self.tasks:  # it was killed meanwhile
            return
        if self.processes is not None and self.processes.hold(
            task.worker, task, self._turn_callbacks
        ):
            return
        work: Any = ()
        if glet is None:
            work = task, task.waiting_on
            if self._idle:
                glet = self._idle.pop()
                glet.gr_context = None  # context variables are the last task's own
            else:
                # Begun without work: what a greenlet is begun with is kept until it ends.
                glet = greenlet(self._run_tasks)
                glet.switch()
            task.glet = glet
        task.waiting_on = None
        self.running = task
        if self.isolation is not None:
            self.isolation.enter(task)
        if glet.parent is not self._hub:
            glet.parent = getcurrent()
        glet.switch(*work)
        self.running = self.hub_task

    def _switch_to_hub(self, task: SimTask) -> None:
        isolation = self.isolation
        if isolation is not None:
            isolation.leave(task)
        if task.apart is None:
            self.switch()
        else:
            task.apart.wait()

    def switch(self) -> None:
        """Let others go on, as the greenlet of a task that has been left."""
        hub = self._hub
        if hub is None:
            raise RuntimeError("a task waits, but nobody runs the simulation")
        hub.switch()

    def leave(self, task: SimTask) -> None:
        """Take what is private to the task's thread from the one that runs it."""
        if self.isolation is not None:
            self.isolation.leave(task)

    def enter(self, task: SimTask) -> None:
        """Put that in place in the thread that is going to run it."""
        if self.isolation is not None:
            self.isolation.enter(task)

    def _run_tasks(self) -> None:
        """The life of a greenlet: one task after the other, of this runtime alone.

        Its stack began on that of whoever ran this simulation, so it does not outlive it.
        """
        me = getcurrent()
        assert me.parent is not None
        work: Any = me.parent.switch()
        while work:  # without, it ends: at half the cost of an exception
            self._body(*work)
            work = ()  # an idle greenlet keeps nothing of its last task alive
            self._idle.append(me)
            work = me.parent.switch()

    def _body(self, task: SimTask, work: tuple[Callable[..., object], tuple[Any, ...]]) -> None:
        current_task_variable.set(task)
        tracer = task.worker.tracer if task.worker is not None else self.tracer
        if tracer.enabled:
            tracer.emit(tracing.TASK_STARTED, task.name, task.parent, task.cause)
        error: str | None = None
        try:
            fn, args = work
            fn(*args)
        except GreenletExit:
            error = "killed"
        except BaseException as failure:
            if task is self._dying:  # its ``finally`` blocks raise what they like
                error = "killed"
            else:
                # A task has nobody to raise to: whoever starts one handles its errors.
                error = repr(failure)
                self._failure = failure
        if tracer.enabled:
            # A thread of PyTorch's pool that keeps the context of one message has it for the next.
            if task.autograd_context_id != NO_CONTEXT and task.serves_a_message and error is None:
                where = f"the current context of a task ({task.name})"
                tracer.emit(tracing.LEFT_BEHIND, where, 1, str(task.autograd_context_id))
            tracer.emit(tracing.TASK_ENDED, error)
        if self.isolation is not None:
            self.isolation.leave(task)
        self._ended(task, error)

    def _ended(self, task: SimTask, error: str | None) -> None:
        if self.tasks.pop(task, self) is None and not task.daemon:
            self._foreground -= 1
        task.glet = None
        if task.locals:
            task.locals.clear()
