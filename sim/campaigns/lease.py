"""The work of a lease, in a process of its own; what comes of it depends on nothing else."""

from __future__ import annotations

import os
import time
from hashlib import blake2b
from multiprocessing.connection import Connection

import torch

from squall.sim.campaigns.parts.part import Part
from squall.sim.campaigns.plan import Lease
from squall.sim.campaigns.row import Row, failed_row

__all__ = ["ALIVE", "Row", "digest_of", "failed_row", "work"]

#: what a process sends where a verdict takes long, and real seconds between two of these
ALIVE, _ALIVE_S = None, 5.0


def work(connection: Connection, numbers: range, part: Part, driver: int, *, again: bool) -> None:
    """Judge some numbers of a part, and send a row of each as it is there, as long as the driver lives.

    In between comes :data:`ALIVE`. ``again``: a process has ended at the first of them.
    """
    torch.set_num_threads(1)
    told = time.monotonic()

    def alive() -> None:
        nonlocal told
        if time.monotonic() - told > _ALIVE_S:
            told = time.monotonic()
            connection.send(ALIVE)

    for row in part.rows(numbers, alive, again=again):
        connection.send(row)
        if os.getppid() != driver:
            return


def digest_of(lease: Lease, rows: list[Row]) -> str:
    """Over all that is known of the numbers of a lease."""
    told = [lease.part.name, *(tuple(row[:5]) for row in rows)]
    return blake2b(repr(told).encode(), digest_size=16).hexdigest()
