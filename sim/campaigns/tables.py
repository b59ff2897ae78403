"""The tables of a store, as the newest migration leaves them."""

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
)
from sqlalchemy.dialects import postgresql, sqlite

METADATA = MetaData()
#: in the order of its bytes, which is also SQLite's, whatever the language of the server
WORD = Text().with_variant(Text(collation="C"), "postgresql")

#: one row: what decides the verdicts, as JSON
CAMPAIGN = Table("campaign", METADATA, Column("said", Text, nullable=False))

#: what has been judged. ``number``: which of the leases of the plan it is, counted over all shares;
#: null in files of the first schema. ``failed``: its scenarios that did.
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
    PrimaryKeyConstraint("part", "first"),
    sqlite_with_rowid=False,
)

#: ``first``: the one of its lease
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

#: who judged a lease. ``ended``: seconds since 1970; ``seconds``: how long it took. No verdict
#: depends on it
WORK = Table(
    "work",
    METADATA,
    Column("part", WORD, nullable=False),
    Column("first", BigInteger, nullable=False, autoincrement=False),
    Column("host", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("ended", Double, nullable=False, index=True),
    Column("seconds", Double, nullable=False),
    PrimaryKeyConstraint("part", "first"),
    sqlite_with_rowid=False,
)

#: behaviour that a part has shown (squall.model.coverage.behaviour). ``at``: how many of its
#: scenarios were judged by then, which depends on the order in which leases end
FACT = Table(
    "fact",
    METADATA,
    Column("part", WORD, nullable=False),
    Column("fact", BigInteger, nullable=False, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("part", "fact"),
    sqlite_with_rowid=False,
)

#: rare situations that a part has reached (squall.model.coverage.sometimes); ``at`` as above.
#: ``times``: in how many of its scenarios
SITUATION = Table(
    "situation",
    METADATA,
    Column("part", WORD, nullable=False),
    Column("name", WORD, nullable=False),
    Column("times", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("part", "name"),
    sqlite_with_rowid=False,
)


def add(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Those whose key is not there yet."""
    if rows:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)
