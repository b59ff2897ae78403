"""Fault plans for scripts: the processes that a launcher starts, as a plan names them by rank.

A rank is the number that a process has in its RPC group, or is started with. Until a process has
one, nothing can happen to it but a slow start.
"""

from __future__ import annotations

import logging

from squall.real.rpc import api
from squall.real.worker import Worker
from squall.sim.faults.file import RankError, check_group
from squall.sim.faults.injector import FaultInjector
from squall.sim.faults.plan import Plan
from squall.sim.scripts.compat.launcher import Launcher
from squall.sim.scripts.compat.process import SimProcess, process_of
from squall.sim.world.crash import crash
from squall.sim.world.garbage import collect
from squall.sim.world.network import Network
from squall.sim.world.processes import processes_of

logger = logging.getLogger(__name__)


class ScriptHost:
    """The workers of a script, for :class:`~squall.sim.faults.injector.FaultInjector`."""

    def __init__(self, plan: Plan, network: Network) -> None:
        self._network = network
        self._runtime = network.runtime
        self._launcher: Launcher | None = None
        #: the present process of each rank that has joined a group
        self._ranks: dict[int, Worker] = {}
        #: processes of each rank that there have been
        self._incarnations: dict[int, int] = {}
        self._restarting: int | None = None
        self._joined: dict[int, None] = {}
        self._begun = self._runtime.event("all workers to join")
        #: why the plan is not for the group of this script
        self.refused: RankError | None = None
        self.faults = FaultInjector(plan, network, self)
        network.on_attach = self._attached
        if plan.begin == "launch":
            self.faults.begin()
            self._begun.set()

    def serve(self, launcher: Launcher) -> None:
        """Take the processes of ``launcher``, which has not started any."""
        self._launcher = launcher
        launcher.on_start = self._started
        launcher.table.on_joined = self._has_joined
        launcher.table.on_grouped = self._come

    # -- what the network and the launcher tell -----------------------------------------------

    def _started(self, rank: int, process: SimProcess) -> None:
        worker = process.worker
        if self._restarting == rank:
            worker.incarnation = self._incarnations[rank]
        self.faults.prepare_unnamed(worker)
        delay_s = self.faults.start_delay_s(rank) if self._restarting is None else 0.0
        if delay_s:
            processes = processes_of(self._runtime)
            processes.pause(worker)
            timer = self._runtime.call_later(delay_s, lambda: processes.resume(worker))
            timer.worker = None

    def _attached(self, worker: Worker) -> None:
        rank = worker.id
        self._ranks[rank] = worker
        self.faults.prepare(rank, worker)
        agent = worker.agent
        if agent is not None:
            agent.pool.size = self.faults.threads(rank, agent.pool.size)

    def _has_joined(self, process: SimProcess) -> None:
        agent = process.worker.agent
        if agent is not None:
            self._come(process, len(agent.get_worker_infos()) if agent.is_static_group else 0)

    def _come(self, process: SimProcess, size: int) -> None:
        """It has come to a group of ``size``; 0: of any size."""
        self._joined[process.worker.id] = None
        if size and len(self._joined) == 1:
            self._check(size)
        if self._begun.is_set():
            return
        if len(self._joined) < size:
            self._begun.wait()  # no process runs on before the faults begin
            return
        self.faults.begin()
        self._begun.set()

    def _check(self, size: int) -> None:
        """The first group has so many workers: end the script if the plan is about others."""
        try:
            check_group(self.faults.plan, size)
        except RankError as error:
            self.refused = error
            assert self._launcher is not None, "somebody has joined"
            for process in self._launcher.table.processes:
                process.terminate()

    # -- faults.Host ------------------------------------------------------------------------

    def worker(self, rank: int) -> Worker | None:
        return self._ranks.get(rank)

    def crash(self, rank: int, *, silent: bool) -> bool:
        worker = self._ranks.get(rank)
        if worker is None or not crash(self._network, worker, silent=silent):
            return False
        process = process_of(worker)
        if process is not None:
            process.crash()
        return True

    def restart(self, rank: int) -> None:
        if self._launcher is None or rank not in self._launcher.ranks:
            logger.warning("rank %d was not started by the launcher, and stays away", rank)
            return
        self.crash(rank, silent=False)
        self._incarnations[rank] = self._incarnations.get(rank, 0) + 1
        self._restarting = rank
        try:
            self._launcher.start_rank(rank)
        finally:
            self._restarting = None

    def shutdown_worker(self, rank: int, *, graceful: bool) -> None:
        worker = self._ranks.get(rank)
        if worker is None or worker.agent is None:
            return

        def leave() -> None:
            try:
                api.shutdown(graceful)
            except RuntimeError as error:
                logger.warning("%r could not shut down: %s", worker, error)

        self._runtime.spawn(leave, name="shutdown", worker=worker)

    def collect_garbage(self, rank: int) -> None:
        worker = self._ranks.get(rank)
        if worker is not None:
            self._runtime.spawn(collect, name="garbage", worker=worker)
