"""N workers on one simulated network: what tests, benchmarks and notebooks start from.

with Cluster(2, seed=7, latency="lognormal:0.001:0.5") as cluster:
    results = cluster.run(main)        # main(rank) on every worker, between init and shutdown
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

from squall.model.events.stream_order import StreamEvent
from squall.real.rpc import api, backend_registry, options
from squall.real.rpc.constants import DEFAULT_NUM_WORKER_THREADS, DEFAULT_RPC_TIMEOUT_S
from squall.real.rpc.state import rpc_state
from squall.real.runtime import current_task_or_none
from squall.real.tracing import NULL_TRACER, TABLES_COUNTED, Observer
from squall.real.worker import Worker
from squall.sim.faults.injector import FaultInjector
from squall.sim.faults.plan import NO_FAULTS, Plan
from squall.sim.world.controlled_network import ChosenNetwork
from squall.sim.world.controlled_time import Chooser, ChosenTime
from squall.sim.world.crash import crash
from squall.sim.world.deadlock import deadlock
from squall.sim.world.device import kernel_watch
from squall.sim.world.garbage import collect, deterministic_garbage
from squall.sim.world.isolation import TorchIsolation
from squall.sim.world.latency import LatencyModel
from squall.sim.world.leftovers import tell_what_is_alive, tell_what_is_left
from squall.sim.world.network import Network
from squall.sim.world.ordering import Recorded
from squall.sim.world.processes import Processes, processes_of
from squall.sim.world.schedule import FIFO, Order, Schedule
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.scripted_order import ListedOrder
from squall.sim.world.stand_in import STAND_IN_NAME
from squall.sim.world.stand_in.backend import begin_run, home_of
from squall.sim.world.stand_in.streams import STAND_IN
from squall.sim.world.stand_in.tensors import DEVICE_TYPE
from squall.sim.world.trace import Trace

logger = logging.getLogger(__name__)


class Cluster:
    """Workers ``worker0`` … ``worker{n-1}`` of one RPC group, in virtual time.

    ``trace`` False keeps no events. ``faults``: what is to go wrong; its schedule, if it has one,
    takes the place of ``order``. ``record_schedule``: keep in
    :attr:`schedule_log` what went before what. ``own_settings``: each worker has torch's random
    state, default dtype and so on for itself, as a process does. ``skip_handshakes``: the group begins
    without the round of calls that opens its connections, and :meth:`shutdown` ends it without
    asking whether all is over, which :meth:`settle` has seen to. ``chooser`` chooses what happens
    next, from when all have joined to :meth:`shutdown`; messages then take no time. Raises :class:`Deadlock` from
    :meth:`run` when nothing can happen any more and somebody still waits. ``device``: where the
    tensors of workers are; on "stand-in" each has one of several as its home.
    """

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        latency: LatencyModel | str = "0",
        bandwidth_bytes_per_s: float | None = None,
        order: Order | Schedule = "fifo",
        faults: Plan = NO_FAULTS,
        record_schedule: bool = False,
        trace: bool = True,
        observer: Observer | None = None,
        num_worker_threads: int = DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout_s: float = DEFAULT_RPC_TIMEOUT_S,
        max_steps: int | None = None,
        own_settings: bool = True,
        skip_handshakes: bool = False,
        chooser: Chooser | None = None,
        device: str = "cpu",
    ) -> None:
        self.size = workers
        self._device = device
        default_device = None
        if device == STAND_IN_NAME:
            begin_run(seed, workers, self._rank_that_runs)
            default_device = torch.device(DEVICE_TYPE)
        #: sees what kernels do where the device does not tell
        self._kernels = kernel_watch(device, self._rank_that_runs) if trace else None
        self._isolation = TorchIsolation(
            processes=own_settings, default_device=default_device, dispatch_mode=self._kernels
        )
        if faults.schedule != FIFO:
            order = faults.schedule
        if not isinstance(order, Schedule):
            order = Schedule(order=order)
        if chooser is None and order.grain is not None:
            chooser = ListedOrder(order.chosen, grain=order.grain, ordered=order.ordered)
        if chooser is not None:
            order = FIFO
        if order.timeless or order.order == "pct" or chooser is not None:
            latency, bandwidth_bytes_per_s = "0", None
        #: the clock and the queue, if somebody chooses the order
        self._chosen = None if chooser is None else ChosenTime(chooser)
        self.runtime = SimRuntime(
            seed=seed, order=order, isolation=self._isolation, time=self._chosen
        )
        #: how the run's order deviates from first come, first served, if that is recorded
        self.schedule_log: Recorded | None = (
            self.runtime.record_schedule() if record_schedule else None
        )
        self.runtime.max_steps = max_steps
        self.trace = Trace(observer=observer)
        tracer = self.trace.tracer(self.runtime) if trace else NULL_TRACER
        self.runtime.tracer = tracer
        network = Network if chooser is None else ChosenNetwork
        self.network = network(
            self.runtime,
            latency=latency,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
            connected=skip_handshakes,
            tracer=tracer,
        )
        self._skip_handshakes = skip_handshakes
        self._traced = trace
        self.workers: list[Worker] = []
        #: ranks whose process ended before its time, those that have been restarted included
        self.casualties: dict[int, None] = {}
        #: what a restarted worker does before it is in its group again, in which it may be called at
        #: once, and when it is
        self.before_rejoining: Callable[[int], Any] | None = None
        self.on_restart: Callable[[int], Any] | None = None
        self.faults = FaultInjector(faults, self.network, self) if len(faults) else None
        for rank in range(workers):
            self.workers.append(self._process(rank, 0))
        self.rpc_timeout_s = rpc_timeout_s
        if self.faults is not None and faults.begin == "launch":
            self.faults.begin()
        #: how many workers have yet to join before the faults begin
        self._to_join = workers
        self._joined = self.runtime.event("all workers to join")
        #: ranks that do nothing by themselves once they have joined: where somebody chooses the
        #: order, their main tasks end before
        self.idle: frozenset[int] = frozenset()
        self._threads = [
            num_worker_threads
            if self.faults is None
            else self.faults.threads(rank, num_worker_threads)
            for rank in range(workers)
        ]
        self._open = ExitStack()

    def __enter__(self) -> Cluster:
        self._open.enter_context(deterministic_garbage())
        return self

    def __exit__(self, *_: object) -> None:
        self.runtime.close()
        self._isolation.close()
        if self._kernels is not None:
            self._kernels.end()
        if self._device == STAND_IN_NAME:
            STAND_IN.end()
        self._open.close()
        self.trace.close()

    @property
    def stream_events(self) -> Sequence[StreamEvent]:
        """What streams of the device have done; nothing on the CPU."""
        if self._kernels is not None:
            return self._kernels.log
        return STAND_IN.log if self._device == STAND_IN_NAME else ()

    def init_rpc(self, rank: int) -> None:
        """Join the group as worker ``rank``; for a task of that worker."""
        api.init_rpc(
            f"worker{rank}",
            backend_registry.BackendType.TENSORPIPE,
            rank=rank,
            world_size=self.size,
            rpc_backend_options=options.TensorPipeRpcBackendOptions(
                num_worker_threads=self._threads[rank],
                rpc_timeout=self.rpc_timeout_s,
                init_method="sim://cluster",
                device_maps=self._device_maps(rank),
            ),
        )
        self._to_join -= 1
        if self.faults is None and self._chosen is None:
            return
        if self._to_join == 0:
            if self.faults is not None:
                self.faults.begin()
            self._joined.set()
            if self._chosen is not None:
                self._chosen.begin()
                if rank not in self.idle:
                    self.runtime.sleep(0.0)  # nobody has chosen yet who goes first
        if self._chosen is None or rank not in self.idle:
            self._joined.wait()  # nobody is ahead of the faults

    def _device_maps(self, rank: int) -> dict[str, dict[Any, Any]] | None:
        """From the home of a worker to that of each other."""
        if self._device == "cpu":
            return None
        homes = [torch.device("cuda", 0)] * self.size
        if self._device == STAND_IN_NAME:
            homes = [home_of(other) for other in range(self.size)]
        return {f"worker{other}": {homes[rank]: homes[other]} for other in range(self.size)}

    def _rank_that_runs(self) -> int:
        task = current_task_or_none()
        worker = None if task is None else task.worker
        return self.workers.index(worker) if worker in self.workers else -1

    def run(
        self,
        main: Callable[[int], Any] | Sequence[Callable[[], Any]],
        *,
        shutdown: bool = True,
        collect: bool = True,
    ) -> list[Any]:
        """Run ``main(rank)`` on every worker (or ``main[rank]()``) and give what each returned.

        ``collect`` False: references that they dropped in cycles are theirs still as they shut
        down. Raises the first worker's error if any raised.
        """
        results: list[Any] = [None] * self.size
        errors: dict[int, BaseException] = {}
        finished: list[int] = []

        def process(rank: int) -> None:
            worker = self.workers[rank]
            try:
                self.init_rpc(rank)
                if callable(main):
                    results[rank] = main(rank)
                elif rank < len(main):
                    results[rank] = main[rank]()
                finished.append(rank)
                if shutdown and collect and len(finished) == self.size:
                    self._collect()
                if shutdown and worker.agent is not None:
                    api.shutdown(graceful=not self.casualties)
            except Exception as error:
                errors[rank] = error
                if worker.agent is not None:
                    api.shutdown(graceful=False)

        def start(rank: int) -> None:
            worker = self.workers[rank]
            self.runtime.spawn(process, rank, name="main", worker=worker, daemon=False)

        for rank in range(self.size):
            delay_s = 0.0 if self.faults is None else self.faults.start_delay_s(rank)
            if delay_s:
                self.runtime.call_later(delay_s, partial(start, rank))
            else:
                start(rank)
        self.runtime.run()
        if errors:
            raise errors[min(errors)]
        if self.runtime.foreground:
            raise deadlock(self.runtime)
        return results

    def call(self, functions: dict[int, Callable[[], Any]]) -> dict[int, Any]:
        """After a :meth:`run` without shutdown: call functions on the workers of these ranks, all
        at once, and give what each returned or raised.

        Raises :class:`Deadlock` if one of them comes to no end.
        """
        results: dict[int, Any] = {}

        def called(rank: int) -> None:
            try:
                results[rank] = functions[rank]()
            except Exception as error:
                results[rank] = error

        for rank in functions:
            worker = self.workers[rank]
            self.runtime.spawn(called, rank, name="main", worker=worker, daemon=False)
        self.runtime.run()
        if self.runtime.foreground:
            raise deadlock(self.runtime)
        return results

    # -- what may happen to a worker ------------------------------------------------------

    @property
    def processes(self) -> Processes:
        """Pauses, slows down and ends workers."""
        return processes_of(self.runtime)

    def is_dead(self, worker: Worker) -> bool:
        """Whether its process ended before its time."""
        return self.runtime.processes is not None and self.runtime.processes.is_dead(worker)

    def together(self) -> tuple[int, ...]:
        """The ranks whose workers are in one group: the last one that any of them has joined."""
        there: dict[Any, list[int]] = {}
        for rank, worker in enumerate(self.workers):
            if worker.agent is not None and worker.agent.is_running:
                there.setdefault(worker.agent.store, []).append(rank)
        if not there:
            return ()
        joined = {
            group: rpc_state(self.workers[ranks[0]]).init_count for group, ranks in there.items()
        }
        return tuple(there[max(there, key=lambda group: joined[group])])

    def worker(self, rank: int) -> Worker | None:
        """The present process of a rank."""
        return self.workers[rank]

    def crash(self, rank: int, *, silent: bool = False) -> bool:
        """End the process of a worker: nothing of it runs any more.

        Its peers see their connections close at once; or, ``silent``, they see nothing, until a
        new process of the rank is there. False if there is none to end. Raises RuntimeError if
        a task of that worker asks.
        """
        worker = self.workers[rank]
        if self.runtime.running.worker is worker:
            raise RuntimeError(f"{worker!r} cannot end its own process at this point")
        if not crash(self.network, worker, silent=silent):
            return False
        self.casualties[rank] = None
        return True

    def restart(self, rank: int) -> None:
        """Start a new process of a rank, with empty state: it does :attr:`before_rejoining`, joins the
        group again, and does :attr:`on_restart`. One that is still there is ended first."""
        self.crash(rank)
        before = self.workers[rank]
        worker = self._process(rank, before.incarnation + 1)
        rpc_state(worker).init_count = max(0, rpc_state(before).init_count - 1)
        self.workers[rank] = worker

        def process() -> None:
            try:
                if self.before_rejoining is not None:
                    self.before_rejoining(rank)
                self.init_rpc(rank)
                if self.on_restart is not None:
                    self.on_restart(rank)
            except RuntimeError as error:
                # Its group may never have stood, and what it does may meet further faults.
                logger.warning("%r did not come back: %s", worker, error)
                if worker.agent is not None:
                    api.shutdown(graceful=False)

        self.runtime.spawn(process, name="main", worker=worker)

    def end_choice(self) -> None:
        """From here on nobody chooses any more what happens next."""
        if self._chosen is not None:
            self._chosen.end()

    def shutdown_worker(self, rank: int, *, graceful: bool) -> None:
        """Shut RPC down on one worker, whatever else it is doing."""
        worker = self.workers[rank]
        if worker.agent is None or self.is_dead(worker):
            return
        self.casualties[rank] = None

        def leave() -> None:
            try:
                api.shutdown(graceful)
            except RuntimeError as error:
                logger.warning("%r could not shut down: %s", worker, error)

        self.runtime.spawn(leave, name="shutdown", worker=worker)

    def collect_garbage(self, rank: int) -> None:
        """Collect cyclic garbage in a task of a worker."""
        worker = self.workers[rank]
        if not self.is_dead(worker):
            self.runtime.spawn(collect, name="garbage", worker=worker)

    def _process(self, rank: int, incarnation: int) -> Worker:
        worker = Worker(self.runtime, self.network, name=f"worker{rank}")
        worker.incarnation = incarnation
        if self._traced:
            worker.tracer = self.trace.tracer(self.runtime, worker)
        if self.faults is not None:
            self.faults.prepare(rank, worker)
        return worker

    # -- the end ----------------------------------------------------------------------------

    def _collect(self) -> None:
        """Collect what the workers dropped in cycles: it is theirs no more. Without any RRef that
        makes no difference to a run, and it is not done."""
        for worker in self.workers:
            rrefs = worker.rref_context
            if rrefs is None:
                continue
            users = rrefs.user_tables
            if rrefs.owner_tables.owners or users.confirmed_users or users.pending_users:
                collect()
                return

    def settle(self, *, kept: bool = False) -> None:
        """Let everything end that is under way, after a :meth:`run` without shutdown, and count
        what the workers' tables hold then: nothing, unless somebody keeps a reference.

        ``kept``: somebody does, or a context, or what came of a call.
        """
        self.runtime.run()
        living = [worker for worker in self.workers if not self.is_dead(worker)]
        if not kept:
            for worker in living:
                tell_what_is_alive(worker)
        self._collect()
        self.runtime.run()
        for worker in living:
            rrefs, container, engine = worker.rref_context, worker.container, worker.engine
            if rrefs is None or container is None or engine is None or not worker.tracer.enabled:
                continue
            owned, used = rrefs.owner_tables, rrefs.user_tables
            users = [user for user in list(used.confirmed_users.values()) if user() is not None]
            worker.tracer.emit(
                TABLES_COUNTED,
                len(owned.owners),
                sum(len(forks) for forks in owned.forks.values()),
                len(used.pending_users),
                len(used.pending_children),
                len(owned.pending_owners),
                len(users),
                container.num_autograd_contexts(),
                engine.num_backward_passes(),
            )
            tell_what_is_left(worker)

    def debug_info(self) -> list[dict[str, int]]:
        """For each worker PyTorch's counters of what its tables hold, none outside of a group."""
        return [_debug_info(worker) for worker in self.workers]

    def look_back(self) -> None:
        """After the :meth:`shutdown` of workers on which nobody keeps anything: report what they
        have not given back, their agents among it."""
        for worker in self.workers:
            if not self.is_dead(worker) and worker.tracer.enabled:
                tell_what_is_alive(worker)
                tell_what_is_left(worker)

    def shutdown(self) -> None:
        """Shut RPC down on every worker, gracefully unless some are missing or the run is without
        one; faults end before.

        Raises :class:`Deadlock`.
        """
        if self.faults is not None:
            self.faults.heal()
        self.end_choice()
        apart = len(self.together()) < self.size
        graceful = not (self.casualties or self._skip_handshakes or apart)
        for worker in self.workers:
            if worker.agent is not None and not self.is_dead(worker):
                self.runtime.spawn(
                    api.shutdown, graceful, name="shutdown", worker=worker, daemon=False
                )
        self.runtime.run()
        if self.runtime.foreground:
            raise deadlock(self.runtime)


def _debug_info(worker: Worker) -> dict[str, int]:
    rrefs, agent, engine = worker.rref_context, worker.agent, worker.engine
    if rrefs is None or agent is None or engine is None:
        return {}
    infos = (rrefs.get_debug_info(), agent.get_debug_info(), engine.get_debug_info())
    return {name: int(value) for info in infos for name, value in info.items()}
