"""What one store has, taken over by another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Table

from squall.sim.campaigns.address import CampaignStoreError
from squall.sim.campaigns.database import Database
from squall.sim.campaigns.leases import digests
from squall.sim.campaigns.reading import Reading
from squall.sim.campaigns.tables import LEASE, MERGED, add

#: rows that are in memory at a time
_ROWS = 500


def absorb(database: Database, other: Reading) -> None:
    """Take over all that ``other`` has, or nothing of it. Raises CampaignStoreError if the two have
    judged a lease differently."""

    def copy(connection: Connection) -> None:
        for some in _chunks(other, LEASE):
            keys = [(row["part"], row["first"]) for row in some]
            there = digests(connection, keys)
            for key, row in zip(keys, some, strict=True):
                if there.get(key, row["digest"]) != row["digest"]:
                    raise CampaignStoreError(
                        f"{other.file}: its verdicts on the seeds from {key[1]} on, part {key[0]}, "
                        f"are not those of {database.address}"
                    )
            add(connection, LEASE, some)
        for table in MERGED:
            if table is not LEASE:
                for some in _chunks(other, table):
                    add(connection, table, some)

    database.run(copy)


def _chunks(other: Reading, table: Table) -> Iterator[list[dict[str, Any]]]:
    rows = other.rows(table)
    while some := list(islice(rows, _ROWS)):
        yield some
