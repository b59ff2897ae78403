"""What a store says of its campaign, to whoever reads it while others write."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    func,
    select,
    true,
    tuple_,
)

from squall.sim.campaigns.address import Address, CampaignStoreError, address_of
from squall.sim.campaigns.database import Database
from squall.sim.campaigns.opening import said_by
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.row import Key
from squall.sim.campaigns.schema import check_known, version_of
from squall.sim.campaigns.tables import FAILURE, LEASE

#: what the tables of verdicts have; the texts of failures are for readers
_VERDICTS = {
    LEASE: ("part", "first", "stop", "digest", "events"),
    FAILURE: ("part", "seed", "property", "what", "digest"),
}
#: rows that are read at a time
_ROWS = 2000


class Kind(NamedTuple):
    """A kind of failure: the first scenario that showed it, and how many have."""

    property: str
    what: str
    part: str
    seed: int
    digest: str
    text: str
    place: str = ""
    scenarios: int = 1

    @builtins.property
    def key(self) -> Key:
        return self.property, self.what, self.place


class Reading:
    """Of all shares, or of one. Its methods raise CampaignStoreError.

    ``said``: what decides the verdicts of the campaign.
    """

    def __init__(
        self, database: Database, said: dict[str, str], share: tuple[int, int] = (0, 1)
    ) -> None:
        self._db, self.said, self._share = database, said, share

    @property
    def file(self) -> Address:
        """Where it is; ``str()`` of it has no password in it."""
        return self._db.address

    def plan(self) -> Plan:
        """What is to be played, all shares together. Raises CampaignStoreError if another squall has
        put it in other words."""
        try:
            return Plan.read(self.said)
        except (ValueError, KeyError, TypeError, IndexError):
            problem = "its plan is in the words of another version of squall"
            raise CampaignStoreError(f"{self.file}: {problem}") from None

    def lines(self) -> Iterator[str]:
        """The table of verdicts: a line a lease, and one a failure."""
        for table, columns in _VERDICTS.items():
            for row in self.rows(table):
                yield json.dumps([table.name, *map(row.__getitem__, columns)]) + "\n"

    def rows(self, table: Table) -> Iterator[dict[str, Any]]:
        """All of a table, in the order of its key. Some are read at a time, so that neither the memory nor a
        transaction has to hold all."""
        keys = table.primary_key.columns.values()
        asked = select(table).where(self._mine(table)).order_by(*keys).limit(_ROWS)
        page = asked
        while True:
            some = self._db.run(partial(_rows, asked=page))
            yield from some
            if len(some) < _ROWS:
                return
            page = asked.where(tuple_(*keys) > tuple_(*(some[-1][key.name] for key in keys)))

    def ask(self, question: Select[Any]) -> list[Any]:
        """The rows that answer it, all at once."""
        return list(self._db.run(lambda connection: connection.execute(question).all()))

    def verdicts(self) -> str:
        """A hash over :meth:`lines`: campaigns with the same verdicts have the same."""
        seen = blake2b(digest_size=16)
        for line in self.lines():
            seen.update(line.encode())
        return seen.hexdigest()

    def kinds(self) -> list[Kind]:
        """The failures, each kind once: by property, what broke, and its place."""
        columns = FAILURE.c
        same = [columns.property, columns.what, columns.place]
        ranked = (
            select(
                *(columns[name] for name in Kind._fields[:-1]),
                func.count().over(partition_by=same).label("scenarios"),
                func.row_number()
                .over(partition_by=same, order_by=[columns.part, columns.seed])
                .label("rank"),
            )
            .where(self._mine(FAILURE))
            .subquery()
        )
        first = select(*(ranked.c[name] for name in Kind._fields)).where(ranked.c.rank == 1)
        ordered = first.order_by(ranked.c.part, ranked.c.seed)
        return [Kind(*row) for row in self.ask(ordered)]

    def counts(self) -> tuple[int, int, int]:
        """Seeds judged, how many of them failed, and events."""
        columns = LEASE.c
        sums = (func.sum(columns.stop - columns.first), func.sum(columns.failed))
        asked = select(*sums, func.sum(columns.events)).where(self._mine(LEASE))
        ((judged, failed, events),) = self.ask(asked)
        return int(judged or 0), int(failed or 0), int(events or 0)  # PostgreSQL sums to Decimal

    def judged(self) -> dict[str, int]:
        """By part, how many numbers have a verdict."""
        columns = LEASE.c
        count = func.sum(columns.stop - columns.first)
        asked = select(columns.part, count).where(self._mine(LEASE)).group_by(columns.part)
        return {part: int(judged) for part, judged in self.ask(asked)}

    def failed(self) -> dict[str, int]:
        """By part, how many of its seeds have failed."""
        columns = LEASE.c
        asked = select(columns.part, func.sum(columns.failed)).where(self._mine(LEASE))
        return {part: int(failed) for part, failed in self.ask(asked.group_by(columns.part))}

    def close(self) -> None:
        self._db.close()

    def _mine(self, table: Table) -> ColumnElement[bool]:
        """The rows of the share."""
        index, of = self._share
        if of == 1 or table not in (LEASE, FAILURE):
            return true()
        mine = LEASE.c.number % of == index
        if table is LEASE:
            return mine
        its = and_(LEASE.c.part == table.c.part, LEASE.c.first == table.c.first)
        return select(1).where(its, mine).exists()


def open_store(
    place: Address | Path, *, tell: Callable[[str], object] = lambda line: None
) -> Reading:
    """To read what it has of all shares, while others may write. Raises CampaignStoreError."""
    address = address_of(place)
    database = Database(address, create=False, tell=tell)
    try:
        version = database.run(version_of, again=False)
        if version is None:
            raise CampaignStoreError(f"{address}: holds no campaign")
        with database.told():
            check_known(version)
        said = database.run(said_by, again=False)
        if said is None:
            raise CampaignStoreError(f"{address}: holds no campaign")
    except BaseException:
        database.close()
        raise
    return Reading(database, said)


def _rows(connection: Connection, asked: Select[Any]) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(asked).mappings()]
