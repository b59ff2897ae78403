"""What a store says of its campaign, to whoever reads it while others write."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from squall.sim.campaigns.address import Address, CampaignStoreError, address_of
from squall.sim.campaigns.database import Asked, Database
from squall.sim.campaigns.open_store import said_by
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.row import Key
from squall.sim.campaigns.tables import FAILURE, LEASE, Table

#: what the tables of verdicts have; the texts of failures are for readers
_VERDICTS = {
    LEASE: ("part", "first", "stop", "digest", "events"),
    FAILURE: ("part", "seed", "property", "what", "digest"),
}
#: rows that are read at a time
_ROWS = 2000
#: of each kind of failure the first, and how many there are
_KINDS = """
SELECT property, what, part, seed, digest, text, place, scenarios FROM (
    SELECT failure.*, count(*) OVER (PARTITION BY property, what, place) AS scenarios,
    row_number() OVER (PARTITION BY property, what, place ORDER BY part, seed) AS at
    FROM failure WHERE {mine}
) AS ranked WHERE at = 1 ORDER BY part, seed
"""


class FailureKind(NamedTuple):
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

    def rows(self, table: Table, part: str | None = None) -> Iterator[dict[str, Any]]:
        """All of a table, or those of a part, in the order of its key. Some are read at a time, so that neither the memory nor a
        transaction has to hold all."""
        keys, marks = ", ".join(table.key), ", ".join("?" * table.keys)
        asked = f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE {self._mine(table)}"
        of = () if part is None else (part,)
        asked += " AND part = ?" * len(of)
        order = f" ORDER BY {keys} LIMIT {_ROWS}"
        some = self.ask(asked + order, *of)
        while some:
            yield from (dict(zip(table.columns, row, strict=True)) for row in some)
            if len(some) < _ROWS:
                return
            last = some[-1][: table.keys]
            some = self.ask(f"{asked} AND ({keys}) > ({marks}){order}", *of, *last)

    def ask(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that answer it, all at once; it has a ``?`` for each value."""
        return self._db.run(lambda asked: asked.ask(question, *values))

    def verdicts(self) -> str:
        """A hash over :meth:`lines`: campaigns with the same verdicts have the same."""
        seen = blake2b(digest_size=16)
        for line in self.lines():
            seen.update(line.encode())
        return seen.hexdigest()

    def kinds(self) -> list[FailureKind]:
        """The failures, each kind once: by property, what broke, and its place."""
        return [FailureKind(*row) for row in self.ask(_KINDS.format(mine=self._mine(FAILURE)))]

    def counts(self) -> tuple[int, int, int]:
        """Seeds judged, how many of them failed, and events."""
        ((judged, failed, events),) = self._sums("sum(stop - first), sum(failed), sum(events)")
        return int(judged or 0), int(failed or 0), int(events or 0)  # PostgreSQL sums to Decimal

    def judged(self) -> dict[str, int]:
        """By part, how many numbers have a verdict."""
        found = self._sums("part, sum(stop - first)", "GROUP BY part")
        return {part: int(judged) for part, judged in found}

    def failed(self) -> dict[str, int]:
        """By part, how many of its seeds have failed."""
        return {part: int(n) for part, n in self._sums("part, sum(failed)", "GROUP BY part")}

    def close(self) -> None:
        self._db.close()

    def _sums(self, what: str, by: str = "") -> list[tuple[Any, ...]]:
        return self.ask(f"SELECT {what} FROM lease WHERE {self._mine(LEASE)} {by}")

    def _mine(self, table: Table) -> str:
        """What is so of the rows of the share."""
        index, of = self._share
        if of == 1 or table not in _VERDICTS:
            return "1 = 1"
        mine = f"lease.number % {of} = {index}"
        if table is LEASE:
            return mine
        its = "lease.part = failure.part AND lease.first = failure.first"
        return f"EXISTS (SELECT 1 FROM lease WHERE {its} AND {mine})"


def open_store(
    place: Address | Path, *, tell: Callable[[str], object] = lambda line: None
) -> Reading:
    """To read what it has of all shares, while others may write. Raises CampaignStoreError."""
    address = address_of(place)
    database = Database(address, create=False, tell=tell)
    try:
        said = database.run(said_by, again=False)
        if said is None:
            raise CampaignStoreError(f"{address}: holds no campaign")
    except BaseException:
        database.close()
        raise
    return Reading(database, said)


def digests(asked: Asked, keys: list[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Of those leases that are there, by part and first seed. For some hundreds: each is a value."""
    if not keys:
        return {}
    marks = ", ".join(["(?, ?)"] * len(keys))
    found = asked.ask(
        f"SELECT part, first, digest FROM (VALUES {marks}) AS asked "
        "JOIN lease ON part = column1 AND first = column2",
        *(value for key in keys for value in key),
    )
    return {(part, first): digest for part, first, digest in found}
