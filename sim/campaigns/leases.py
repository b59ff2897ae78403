"""Leases by their keys: the name of the part, and the first seed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Connection, select

from squall.sim.campaigns.tables import LEASE

Key = tuple[str, int]


def digests(connection: Connection, keys: Iterable[Key]) -> dict[Key, str]:
    """Of those leases that are there, and of some between them. A question a part: keys that are
    asked for together had better lie together."""
    found = {}
    for part, its in groupby(sorted(keys), itemgetter(0)):
        firsts = [first for _, first in its]
        there = select(LEASE.c.first, LEASE.c.digest).where(
            LEASE.c.part == part, LEASE.c.first.between(firsts[0], firsts[-1])
        )
        found.update({(part, first): digest for first, digest in connection.execute(there)})
    return found
