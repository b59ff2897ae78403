"""Leases by their keys: the name of the part, and the first seed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Connection, select

from squall.sim.campaigns.tables import LEASE

Key = tuple[str, int]


def digests(connection: Connection, keys: Iterable[Key]) -> dict[Key, str]:
    """Of those leases that are there. For some hundreds: each is a parameter of a question."""
    found = {}
    for part, its in groupby(sorted(keys), itemgetter(0)):
        firsts = [first for _, first in its]
        there = select(LEASE.c.first, LEASE.c.digest).where(
            LEASE.c.part == part, LEASE.c.first.in_(firsts)
        )
        found.update({(part, first): digest for first, digest in connection.execute(there)})
    return found
