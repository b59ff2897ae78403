"""The end of a worker's process before its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from squall.sim.world.network import Network
from squall.sim.world.processes import processes_of

if TYPE_CHECKING:
    from squall.real.worker import Worker


def crash(network: Network, worker: Worker, *, silent: bool) -> bool:
    """End the process of ``worker``; False if it has ended in this way before.

    Its peers see their connections close at once; or, ``silent``, they see nothing until there is
    a new process of its rank.
    """
    processes = processes_of(network.runtime)
    if processes.is_dead(worker):
        return False
    agent = worker.agent
    if silent:
        network.vanish(worker)
    if agent is not None:
        if silent:
            agent.is_running = False
        else:
            agent.abandon()
    processes.kill(worker)
    if worker.rref_context is not None:
        # Its references go whenever somebody collects garbage, and nobody is to be told.
        worker.rref_context.abandon()
    worker.tracer.enabled = False  # what is cleared away when the run is over is no event
    return True
