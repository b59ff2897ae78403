"""The tables of a store."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

METADATA = MetaData()
#: in the order of its bytes, which is also SQLite's, whatever the language of the server
WORD = Text().with_variant(Text(collation="C"), "postgresql")

#: one row: the version of all these. Others may have tables of their own in the same database.
SCHEMA = Table("squall_schema", METADATA, Column("version_num", Text, primary_key=True))

#: one row: what decides the verdicts, as JSON
CAMPAIGN = Table("campaign", METADATA, Column("said", Text, nullable=False))

#: what has been judged. ``number``: which of the leases of the plan it is, counted over all shares.
#: ``failed``: its scenarios that did. Then what differs each time:
#: ``worker`` on ``host``, real ``seconds`` that it took, ``finished`` in seconds since 1970.
LEASE = Table(
    "lease",
    METADATA,
    Column("part", WORD, nullable=False),
    Column("first", BigInteger, nullable=False, autoincrement=False),
    Column("stop", BigInteger, nullable=False),
    Column("digest", WORD, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("number", BigInteger),
    Column("failed", BigInteger, nullable=False, server_default="0"),
    Column("worker", Text),
    Column("host", Text),
    Column("seconds", Double),
    Column("finished", Double),
    PrimaryKeyConstraint("part", "first"),
    sqlite_with_rowid=False,
)

#: ``first``: the one of its lease. ``place``: the events that show it (squall/model/events/place.py)
FAILURE = Table(
    "failure",
    METADATA,
    Column("part", WORD, nullable=False),
    Column("seed", BigInteger, nullable=False, autoincrement=False),
    Column("property", WORD, nullable=False),
    Column("what", WORD, nullable=False),
    Column("digest", WORD, nullable=False),
    Column("text", Text, nullable=False),
    Column("first", BigInteger, nullable=False, server_default="0"),
    Column("place", WORD, nullable=False, server_default=text("''")),
    PrimaryKeyConstraint("part", "seed"),
    sqlite_with_rowid=False,
)

#: who plays which share: the driver that was the last to begin. ``began``: seconds since 1970
SHARE = Table(
    "share",
    METADATA,
    Column("index", BigInteger, nullable=False, autoincrement=False),
    Column("of", BigInteger, nullable=False, autoincrement=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("began", Double, nullable=False),
    PrimaryKeyConstraint("index", "of"),
)

#: what the scenarios of a part have shown (:mod:`squall.model.coverage.behaviour`). ``at``: when
#: the first lease with it was complete, in seconds since 1970
FACT = Table(
    "fact",
    METADATA,
    Column("part", WORD, nullable=False),
    Column("fact", BigInteger, nullable=False, autoincrement=False),
    Column("at", Double, nullable=False),
    PrimaryKeyConstraint("part", "fact"),
    sqlite_with_rowid=False,
)

#: rare situations that the scenarios of a part have reached, in the same way
SITUATION = Table(
    "situation",
    METADATA,
    Column("part", WORD, nullable=False),
    Column("name", WORD, nullable=False),
    Column("at", Double, nullable=False),
    PrimaryKeyConstraint("part", "name"),
    sqlite_with_rowid=False,
)

#: planted bugs. ``noticed``: in which scenario that was tried, from 1; null if in none.
#: ``scenarios``: how many were tried, in real ``seconds``, until ``at``
CANARY = Table(
    "canary",
    METADATA,
    Column("part", WORD, nullable=False),
    Column("name", WORD, nullable=False),
    Column("noticed", BigInteger),
    Column("scenarios", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("at", Double, nullable=False),
    PrimaryKeyConstraint("part", "name"),
    sqlite_with_rowid=False,
)

#: what is known of a kind of failure. ``scenario``: the file of the shrunk one, with so many
#: ``events``. ``known``: JSON; of the engine torch, the rules that predict it. ``versions``, ``bisected``, ``before``: JSON; on
#: which versions it shows, the commit that brought it, where it was seen before
TRIAGE = Table(
    "triage",
    METADATA,
    Column("property", WORD, nullable=False),
    Column("what", WORD, nullable=False),
    Column("place", WORD, nullable=False, server_default=text("''")),
    Column("scenario", Text),
    Column("events", BigInteger),
    Column("versions", Text),
    Column("known", Text),
    Column("bisected", Text),
    Column("before", Text),
    Column("at", Double, nullable=False),
    PrimaryKeyConstraint("property", "what", "place"),
    sqlite_with_rowid=False,
)

#: what a store takes over from another one
MERGED = (LEASE, FAILURE, FACT, SITUATION, CANARY, TRIAGE)


def add(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Those whose key is not there yet."""
    if rows:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)


def put(connection: Connection, table: Table, row: dict[str, Any]) -> None:
    """A row, or what it says anew of one that is there."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    keys = list(table.primary_key.columns)
    rest = {name: value for name, value in row.items() if name not in table.primary_key.columns}
    asked = dialect.insert(table).values(row)
    connection.execute(asked.on_conflict_do_update(index_elements=keys, set_=rest))
