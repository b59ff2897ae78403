"""From a fault plan to what happens: rules on the network, timers on workers.

    faults = Faults(plan, network, host)     # before the first message
    faults.begin()                           # the group stands: times and counts start

Rules by hand (:func:`drop` and its like, see sim/world/rules.py) can be had from here too. A
:class:`Host` is whoever has the workers (sim/cluster.py). Each thing that happens is an event
``fault_injected`` in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from squall.real import tracing
from squall.real.rpc.message import Message
from squall.real.worker import Worker
from squall.sim.faults.inner import Probe, make_probes
from squall.sim.faults.links import Links, Partitions
from squall.sim.faults.messages import Counts, MessageRules
from squall.sim.faults.plan import (
    ClockSkew,
    Crash,
    Garbage,
    Moment,
    Pause,
    Plan,
    PoolSize,
    Shutdown,
    SlowCpu,
    SlowStart,
)
from squall.sim.world.network import Network
from squall.sim.world.primitives import SimTimer
from squall.sim.world.processes import Clock, Processes, processes_of
from squall.sim.world.rules import Verdict, delay, drop, duplicate, fail, judge

__all__ = ["Faults", "Host", "delay", "drop", "duplicate", "fail", "judge"]

#: seconds of virtual time that a step of a task takes on a slow processor, at factor 1
STEP_S = 1e-5

#: stands for the rank of a worker where the network reports something
_NETWORK = -1
#: the position of the rank in what the network reports of a message
_OF_MESSAGES = {
    tracing.MESSAGE_SENT: tracing.MESSAGE_SENT.fields.index("src"),
    tracing.MESSAGE_DROPPED: tracing.MESSAGE_DROPPED.fields.index("src"),
    tracing.MESSAGE_DELIVERED: tracing.MESSAGE_DELIVERED.fields.index("dst"),
}

_Timed = Crash | Pause | SlowCpu | Shutdown | Garbage


class Host(Protocol):
    """Whoever has the workers, by rank, and can end and restart their processes."""

    def worker(self, rank: int) -> Worker | None:
        """The present process of a rank; None if there is none yet."""

    def crash(self, rank: int, *, silent: bool) -> bool:
        """End the process of a worker; False if there is none to end."""

    def restart(self, rank: int) -> None: ...

    def shutdown_worker(self, rank: int, *, graceful: bool) -> None: ...

    def collect_garbage(self, rank: int) -> None: ...


class Faults:
    """A plan at work in one run."""

    def __init__(self, plan: Plan, network: Network, host: Host) -> None:
        self.plan = plan
        self._network = network
        self._runtime = network.runtime
        self._host = host
        self._tracer = network.tracer
        self.active = False
        self._messages = MessageRules(plan, network)
        self._partitions = Partitions(plan)
        self._links = Links(plan, network)
        self._start_s = 0.0
        self._counts = Counts()
        self._timers: list[SimTimer] = []
        self._moments: list[_Watched] = []
        self._paused: dict[Worker, int] = {}
        self._slowed: dict[Worker, None] = {}
        if any(isinstance(item, Pause | SlowCpu | Crash) for item in plan.workers):
            self._processes()
        self._has_moments = any(getattr(item, "moment", None) for _, _, item in plan.items())
        if self._has_moments:
            self._watch(_NETWORK, self._tracer)
        self._probes = make_probes(plan, self._inject)
        self._clocks = {
            i.worker: Clock(i.offset_s, i.rate) for i in plan.inner if isinstance(i, ClockSkew)
        }
        for at, item in enumerate(plan.inner):
            if isinstance(item, ClockSkew):
                self._inject("clock_skew", f"inner[{at}]", item.worker, (item.offset_s, item.rate))

    # -- for the host -----------------------------------------------------------------------

    def prepare(self, rank: int, worker: Worker) -> None:
        """Make a new process of that rank subject to the plan."""
        if self._probes:
            self.probe(worker, self._probes.get(rank))
        clock = self._clocks.get(rank)
        if clock is not None:
            if self._runtime.clocks is None:
                self._runtime.clocks = {}
            self._runtime.clocks[worker] = clock
        if self._has_moments:
            self._watch(rank, worker.tracer)

    def probe(self, worker: Worker, probe: Probe | None = None) -> None:
        """Let the plan raise errors inside ``worker``; without a probe, as soon as it has an id."""
        if probe is not None:
            worker.probe = probe
        elif self._probes and worker.probe is None:
            worker.probe = partial(_probe_by_id, self._probes, worker)

    def threads(self, rank: int, default: int) -> int:
        """How many threads the agent of that rank has."""
        for at, item in enumerate(self.plan.inner):
            if isinstance(item, PoolSize) and item.worker in (None, rank):
                self._inject("pool_size", f"inner[{at}]", rank, item.threads)
                default = item.threads
        return default

    def start_delay_s(self, rank: int) -> float:
        """How much later than the others the process of that rank starts."""
        delay_s = 0.0
        for at, item in enumerate(self.plan.workers):
            if isinstance(item, SlowStart) and item.worker == rank:
                self._inject("slow_start", f"workers[{at}]", rank, item.delay_s)
                delay_s += item.delay_s
        return delay_s

    def begin(self) -> None:
        """Times and counts start now."""
        if self.active:
            return
        self.active = True
        start_s = self._runtime.env._now
        self._start_s = self._links.start_s = start_s
        self._messages.begin(start_s)
        if self._messages or self._partitions or self._links:
            self._network.add_rule(self._judge)
        if self._links.conditions:
            self._network.conditions = self._links
        timed: list[tuple[str, _Timed]] = [
            (f"workers[{at}]", item)
            for at, item in enumerate(self.plan.workers)
            if not isinstance(item, SlowStart)
        ]
        timed += [
            (f"inner[{at}]", item)
            for at, item in enumerate(self.plan.inner)
            if isinstance(item, Garbage)
        ]
        for name, item in timed:
            happen = partial(self._happen, name, item)
            if item.moment is None:
                self._later(item.at_s, happen)
            else:
                self._moments.append(_Watched(item.moment, partial(self._later, item.at_s, happen)))
        for probe in self._probes.values():
            probe.active = True
        if self.plan.heal_s is not None:
            self._runtime.call_later(self.plan.heal_s, self.heal).worker = None

    def heal(self) -> None:
        """End all faults: see :mod:`squall.sim.faults.plan`."""
        if not self.active:
            return
        self.active = False
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._moments.clear()
        self._network.conditions = None
        self._messages.end()
        if self._messages or self._partitions or self._links:
            self._network.remove_rule(self._judge)
        for probe in self._probes.values():
            probe.active = False
        processes = self._runtime.processes
        if processes is not None:
            for worker in self._slowed:
                processes.slow(worker, 0.0)
            for worker in self._paused:
                processes.resume(worker)
        if self._runtime.clocks is not None:
            now_s = self._runtime.env._now
            for rank, clock in self._clocks.items():
                self._clocks[rank] = clock.healed(now_s)
            for worker, clock in self._runtime.clocks.items():
                self._runtime.clocks[worker] = clock.healed(now_s)
        if self._tracer.enabled:
            self._tracer.emit(tracing.FAULTS_HEALED)

    def _judge(self, message: Message) -> Verdict | None:
        """The rule on the network: items about messages, then partitions, then links."""
        if message.src == message.dst:
            return None
        nth, time_s = self._counts.next(message), self._runtime.env._now - self._start_s
        return (
            self._messages.judge(message, nth, time_s)
            or self._partitions.judge(message, nth, time_s)
            or self._links.judge(message, nth, time_s)
        )

    # -- what happens -------------------------------------------------------------------------

    def _happen(self, name: str, item: _Timed) -> None:
        rank = item.worker
        worker = self._host.worker(rank)
        if worker is None:
            return
        match item:
            case Crash():
                if self._host.crash(rank, silent=item.silent):
                    self._inject("crash", name, rank, "silent" if item.silent else "reset")
                if item.restart_after_s is not None:
                    # Healing does not take it back: it is part of the healing.
                    timer = self._runtime.call_later(
                        item.restart_after_s, partial(self._restart, name, rank)
                    )
                    timer.worker = None
            case Pause():
                self._inject("pause", name, rank, item.for_s)
                self._paused[worker] = self._paused.get(worker, 0) + 1
                self._processes().pause(worker)
                self._later(item.for_s, partial(self._resume, worker))
            case SlowCpu():
                self._inject("slow_cpu", name, rank, item.factor)
                self._slowed[worker] = None
                self._processes().slow(worker, item.factor * STEP_S)
                if item.for_s is not None:
                    self._later(item.for_s, partial(self._processes().slow, worker, 0.0))
            case Shutdown():
                self._inject("shutdown", name, rank, "graceful" if item.graceful else "ungraceful")
                self._host.shutdown_worker(rank, graceful=item.graceful)
            case Garbage():
                self._inject("garbage", name, rank, None)
                self._host.collect_garbage(rank)

    def _restart(self, name: str, rank: int) -> None:
        self._inject("restart", name, rank, None)
        self._host.restart(rank)

    def _resume(self, worker: Worker) -> None:
        self._paused[worker] -= 1
        if not self._paused[worker]:  # of several pauses, the one that ends last
            self._processes().resume(worker)

    # -- inside -------------------------------------------------------------------------------

    def _processes(self) -> Processes:
        return processes_of(self._runtime)

    def _later(self, delay_s: float, fn: Callable[[], object]) -> None:
        timer = self._runtime.call_later(delay_s, fn)
        timer.worker = None  # it is nobody's, whoever happens to run
        self._timers.append(timer)

    def _inject(self, kind: str, item: str, worker: int, detail: object) -> None:
        if self._tracer.enabled:
            self._tracer.emit(tracing.FAULT_INJECTED, kind, item, worker, -1, -1, "", 0, -1, detail)

    def _watch(self, rank: int, tracer: tracing.Tracer) -> None:
        """See every event of a tracer as it is reported."""
        if not tracer.enabled:
            raise ValueError("a fault plan with a moment needs a trace")
        emit = tracer.emit

        def seen(type: tracing.EventType, *values: object) -> None:
            emit(type, *values)
            if not self._moments:
                return
            of: object = rank
            if rank == _NETWORK and type in _OF_MESSAGES:
                of = values[_OF_MESSAGES[type]]
            for moment in _due(self._moments, type.name, of):
                self._moments.remove(moment)
                moment.act()

        tracer.emit = seen  # type: ignore[method-assign]


def _probe_by_id(probes: dict[int, Probe], worker: Worker, where: str) -> None:
    probe = probes.get(worker.id)
    if probe is not None:
        probe(where)


class _Watched:
    """A moment that has not come yet."""

    def __init__(self, moment: Moment, act: Callable[[], Any]) -> None:
        self.moment = moment
        self.act = act
        self.left = moment.nth

    def sees(self, event: str, rank: object) -> bool:
        """Whether this event is the one."""
        if self.moment.event != event or self.moment.worker not in (None, rank):
            return False
        self.left -= 1
        return self.left == 0


def _due(moments: Iterable[_Watched], event: str, rank: object) -> list[_Watched]:
    return [moment for moment in moments if moment.sees(event, rank)]
