"""Leases judged by processes on this machine, each lease in a copy of this one."""

from __future__ import annotations

import os
import time
from collections import deque
from functools import partial
from multiprocessing.connection import Connection, wait

from squall.model.events.run import Violation
from squall.sim.campaigns.lease import ALIVE, Row, failed_row, judged, work
from squall.sim.campaigns.place import HERE, Done, Event, Heard, Joined
from squall.sim.campaigns.plan import Lease, versions
from squall.sim.search.judge import TIMEOUT_S
from squall.sim.world.sandbox import Contained, resident_bytes

#: real seconds without a verdict after which a process is ended
SILENCE_S = 4 * TIMEOUT_S
#: processes that a seed may end before that counts as a failure of its scenario
TRIES = 3
#: real seconds between two looks at how much memory processes have
_WATCH_S = 0.1


class _Judging:
    """A process that judges what is left of a lease. ``tries``: processes that have ended at the
    seed with which it begins. ``since``: when the first process of the lease began."""

    def __init__(self, lease: Lease, rows: list[Row], tries: int, since: float) -> None:
        self.lease, self.rows, self.tries, self.since = lease, rows, tries, since
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


class Pool:
    """One worker (a :class:`.place.Place`) that judges ``jobs`` leases at the same time.

    ``ahead``: leases that it takes besides, so that none of its processes waits for a driver that
    is far away. ``silence_s``: real seconds after which a process without a verdict is ended.
    ``memory_bytes``: memory with which a process is ended. The lease of a process that has ended
    goes on with another one; a seed that ends three in a row has failed. For the main thread.
    """

    def __init__(
        self,
        jobs: int = 1,
        *,
        ahead: int = 0,
        silence_s: float = SILENCE_S,
        memory_bytes: int | None = None,
    ) -> None:
        self._jobs, self._ahead = jobs, ahead
        self._silence_s, self._memory_bytes = silence_s, memory_bytes
        self._waiting: deque[Lease] = deque()
        self._running: dict[Connection, _Judging] = {}
        self._joined = False

    def start(self, worker: str, lease: Lease) -> None:
        self._waiting.append(lease)
        self._fill()

    def poll(self, timeout_s: float) -> list[Event]:
        if not self._joined:
            self._joined = True
            return [Joined(HERE, self._jobs, self._jobs + self._ahead, versions())]
        self._wait(timeout_s)
        events: list[Event] = []
        for connection, process in list(self._running.items()):
            more = process.receive()  # first: whoever asks may not have asked for long
            reason = self._reason_to_end(process)
            if more and reason is None:
                continue
            del self._running[connection]
            process.copy.end()
            if not process.complete:
                process.ended(*(reason or ("the process ended", "the end of its process")))
            if process.complete:
                seconds = time.monotonic() - process.since
                found = judged(process.lease, process.rows, process.copy.pid, seconds)
                events.append(Done(HERE, found))
            else:
                self._run(process.lease, process.rows, process.tries, process.since)
        self._fill()
        events.append(Heard(HERE, sum(len(each.rows) for each in self._running.values())))
        return events

    def stop(self, worker: str) -> None:
        self.close()

    def close(self) -> None:
        self._waiting.clear()
        while self._running:
            _, process = self._running.popitem()
            process.copy.end()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._jobs:
            self._run(self._waiting.popleft(), [], 0, time.monotonic())

    def _run(self, lease: Lease, rows: list[Row], tries: int, since: float) -> None:
        process = _Judging(lease, rows, tries, since)
        self._running[process.copy.connection] = process

    def _wait(self, timeout_s: float) -> None:
        """Until a process has sent something, or has too much memory; at most so long."""
        ends = time.monotonic() + timeout_s
        while (left := ends - time.monotonic()) > 0:
            step = left if self._memory_bytes is None else min(left, _WATCH_S)
            if not self._running:
                time.sleep(step)
            elif wait(list(self._running), step) or any(
                self._reason_to_end(each) is not None for each in self._running.values()
            ):
                return

    def _reason_to_end(self, process: _Judging) -> tuple[str, str] | None:
        """What broke and what was seen, of a process that is to be ended."""
        if time.monotonic() - process.heard > self._silence_s:
            return "no verdict in time", f"none after {self._silence_s:g} s"
        if self._memory_bytes is not None:
            used = resident_bytes(process.copy.pid)
            if used > self._memory_bytes:
                # The text counts in no digest; how much it was differs each time.
                return "too much memory", f"{used / 2**20:,.0f} MiB"
        return None
