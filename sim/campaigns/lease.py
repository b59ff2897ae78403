"""The work of a lease, in a process of its own; what comes of it depends on nothing else."""

from __future__ import annotations

import os
import socket
import time
from array import array
from hashlib import blake2b
from multiprocessing.connection import Connection
from typing import NamedTuple

import torch

from squall.sim.campaigns.parts.part import Part
from squall.sim.campaigns.plan import Lease
from squall.sim.campaigns.row import Row, failed_row
from squall.sim.world.sandbox import end_with_parent

__all__ = ["ALIVE", "Judged", "Row", "digest_of", "failed_row", "judged", "work"]

#: what a process sends where a verdict takes long, and real seconds between two of these
ALIVE, _ALIVE_S = None, 5.0


class Judged(NamedTuple):
    """What a lease has come to. ``digest``: over all that is known of its seeds. ``pid``: of the
    process that has reached the last verdict, on ``host``, ``seconds`` of real time after the
    lease was begun there. ``worker``: what the driver calls who has judged it. ``facts`` and
    ``situations``: behaviour and rare situations that its seeds have shown, if that was asked for."""

    lease: Lease
    digest: str
    events: int
    failures: tuple[Row, ...]
    pid: int = 0
    host: str = ""
    seconds: float = 0.0
    worker: str = ""
    facts: tuple[int, ...] = ()
    situations: tuple[str, ...] = ()


def judged(lease: Lease, rows: list[Row], pid: int = 0, seconds: float = 0.0) -> Judged:
    """On this machine. ``rows``: of its seeds, in their order."""
    events = sum(row.events for row in rows)
    failures = tuple(row._replace(facts=b"", situations=()) for row in rows if row.property)
    digest, host = digest_of(lease, rows), socket.gethostname()
    found = Judged(lease, digest, events, failures, pid, host, seconds)
    facts = {fact for row in rows if row.facts for fact in array("Q", row.facts)}
    situations = {name for row in rows for name in row.situations}
    return found._replace(facts=tuple(sorted(facts)), situations=tuple(sorted(situations)))


def work(connection: Connection, numbers: range, part: Part, driver: int, *, again: bool) -> None:
    """Judge some numbers of a part, and send a row of each as it is there, as long as the driver lives.

    In between comes :data:`ALIVE`. ``again``: a process has ended at the first of them.
    """
    end_with_parent()  # a scenario that hangs would never see that nobody waits for it
    torch.set_num_threads(1)
    told = time.monotonic()

    def alive() -> None:
        nonlocal told
        if time.monotonic() - told > _ALIVE_S:
            told = time.monotonic()
            connection.send(ALIVE)

    known: set[int] = set()
    for row in part.rows(numbers, alive, again=again):
        if row.facts:
            new = set(array("Q", row.facts)) - known
            known |= new
            row = row._replace(facts=array("Q", new).tobytes())
        connection.send(row)
        if os.getppid() != driver:
            return


def digest_of(lease: Lease, rows: list[Row]) -> str:
    """Over all that is known of the numbers of a lease."""
    told = [lease.part.name, *(tuple(row[:5]) for row in rows)]
    return blake2b(repr(told).encode(), digest_size=16).hexdigest()
