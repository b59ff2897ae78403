"""Hands out leases to processes, and a lease again whose process was killed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, wait

from squall.model.events.run import Violation
from squall.sim.campaigns.lease import ALIVE, Row, failed_row, work
from squall.sim.campaigns.plan import Lease, Plan
from squall.sim.campaigns.store import CampaignStore
from squall.sim.search.judge import TIMEOUT_S
from squall.sim.world import interrupts
from squall.sim.world.contained import Contained

#: real seconds without a verdict after which a process is ended, and between two looks
SILENCE_S, _LOOK_S = 4 * TIMEOUT_S, 0.25
#: processes that a seed may end before that counts as a failure of its scenario
TRIES = 3


class _Worker:
    """A process that judges what is left of a lease. ``tries``: processes that have ended at the
    seed with which it begins."""

    def __init__(self, lease: Lease, rows: list[Row], tries: int) -> None:
        self.lease, self.rows, self.tries = lease, rows, tries
        self._began = len(rows)
        self.heard = time.monotonic()
        left = range(lease.seeds.start + len(rows), lease.seeds.stop)
        judging = partial(work, again=tries > 0)
        self.copy = Contained(judging, left, lease.part, os.getpid())

    @property
    def complete(self) -> bool:
        return len(self.rows) == len(self.lease.seeds)

    def receive(self) -> bool:
        """Take what it has sent. False once it sends no more."""
        try:
            while not self.complete and self.copy.connection.poll():
                said = self.copy.connection.recv()
                if said is not ALIVE:
                    self.rows.append(said)
                self.heard = time.monotonic()
        except (EOFError, ConnectionError):
            return False
        return not self.complete

    def ended(self, what: str, seen: str) -> None:
        """Its process is gone. The seed that it was at is judged again, but not for ever."""
        self.tries = 1 + (self.tries if len(self.rows) == self._began else 0)
        if self.tries == TRIES:
            violation = Violation("progress", what, "a verdict", f"{seen}, {TRIES} times")
            self.rows.append(failed_row(self.lease.seeds.start + len(self.rows), violation))
            self.tries = 0


def drive(
    plan: Plan,
    store: CampaignStore,
    *,
    jobs: int = 1,
    silence_s: float = SILENCE_S,
    on_lease: Callable[[Lease, list[Row], int], object] = lambda lease, rows, pid: None,
    on_look: Callable[[int], object] = lambda under_way: None,
) -> None:
    """Judge what the store does not have of the plan.

    ``silence_s``: real seconds after which a process without a verdict is ended. ``on_lease`` gets
    the rows of a lease once they are on disk, and the process. ``on_look`` is called several times
    a second, with the number of verdicts that are not yet on disk. Raises KeyboardInterrupt,
    CampaignStoreError. For the main thread.
    """
    waiting = (lease for lease in plan.leases() if not store.has(lease))
    running: dict[Connection, _Worker] = {}

    def start(lease: Lease, rows: list[Row], tries: int = 0) -> None:
        worker = _Worker(lease, rows, tries)
        running[worker.copy.connection] = worker

    with interrupts.heard():
        try:
            while True:
                while len(running) < jobs and (lease := next(waiting, None)) is not None:
                    start(lease, [])
                if not running:
                    return
                interrupts.check()
                wait(list(running), _LOOK_S)
                for connection, worker in list(running.items()):
                    silent = time.monotonic() - worker.heard > silence_s
                    if worker.receive() and not silent:
                        continue
                    del running[connection]
                    worker.copy.end()
                    if not worker.complete:
                        if silent:
                            worker.ended("no verdict in time", f"none after {silence_s:g} s")
                        else:
                            worker.ended("the process ended", "the end of its process")
                    if not worker.complete:
                        start(worker.lease, worker.rows, worker.tries)
                        continue
                    with interrupts.deferred():  # what is on disk is told
                        if store.take(worker.lease, worker.rows):
                            on_lease(worker.lease, worker.rows, worker.copy.pid)
                    interrupts.check()
                on_look(sum(len(worker.rows) for worker in running.values()))
        finally:
            for worker in running.values():
                worker.copy.end()
