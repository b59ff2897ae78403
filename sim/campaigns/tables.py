"""The tables of a store, in the SQL that SQLite and PostgreSQL share."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Table:
    """``said``: its columns, each with its type and a ``?`` if it may be null; the first ``keys`` of them are the
    primary key."""

    name: str
    keys: int
    said: str

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.split()[0] for column in self.said.split(","))

    @property
    def key(self) -> tuple[str, ...]:
        return self.columns[: self.keys]

    def made(self, *, on_server: bool) -> str:
        """The command that makes it. A WORD has the order of its bytes, whatever the language of a server."""
        word = 'TEXT COLLATE "C"' if on_server else "TEXT"
        columns = re.sub(r"(?<=\w)(?=,|$)", " NOT NULL", self.said).replace("?", "")
        columns = columns.replace("WORD", word).replace("REAL", "DOUBLE PRECISION")
        if self.keys:
            columns += f", PRIMARY KEY ({', '.join(self.key)})"
        end = " WITHOUT ROWID" if self.keys and not on_server else ""
        return f"CREATE TABLE {self.name} ({columns}){end}"


#: one row: the version of all these. Others may have tables of their own in the same database.
SCHEMA = Table("squall_schema", 0, "version_num TEXT")

#: one row: what decides the verdicts, as JSON
CAMPAIGN = Table("campaign", 0, "said TEXT")

#: what has been judged. ``number``: which of the leases of the plan it is, counted over all shares.
#: ``failed``: its scenarios that did. Then what differs each time:
#: ``worker`` on ``host``, real ``seconds`` that it took, ``finished`` in seconds since 1970.
LEASE = Table(
    "lease",
    2,
    "part WORD, first BIGINT, stop BIGINT, digest WORD, events BIGINT, number BIGINT, failed BIGINT, "
    "worker TEXT?, host TEXT?, seconds REAL?, finished REAL?",
)

#: ``first``: the one of its lease. ``place``: the events that show it (squall/model/events/failure_place.py)
FAILURE = Table(
    "failure",
    2,
    "part WORD, seed BIGINT, property WORD, what WORD, digest WORD, text TEXT, first BIGINT, place WORD",
)

#: who plays the share ``number`` of ``shares``: the driver that was the last to begin. ``began``: seconds since 1970
SHARE = Table("share", 2, "number BIGINT, shares BIGINT, host TEXT, pid BIGINT, began REAL")

#: what the scenarios of a part have shown (:mod:`squall.model.coverage.behaviour`). ``at``: when
#: the first lease with it was complete, in seconds since 1970
FACT = Table("fact", 2, "part WORD, fact BIGINT, at REAL")

#: rare situations that the scenarios of a part have reached, in the same way
SITUATION = Table("situation", 2, "part WORD, name WORD, at REAL")

#: planted bugs. ``noticed``: in which scenario that was tried, from 1; null if in none.
#: ``scenarios``: how many were tried, in real ``seconds``, until ``at``
CANARY = Table(
    "canary", 2, "part WORD, name WORD, noticed BIGINT?, scenarios BIGINT, seconds REAL, at REAL"
)

#: what is known of a kind of failure. ``scenario``: the file of the shrunk one, with so many
#: ``events``. ``known``: JSON; of the engine torch, the rules that predict it. ``versions``, ``before``: JSON; on
#: which versions it shows, and where it was gone before
TRIAGE = Table(
    "triage",
    3,
    "property WORD, what WORD, place WORD, scenario TEXT?, events BIGINT?, versions TEXT?, known TEXT?, "
    "before TEXT?, at REAL",
)

#: what a store takes over from another one, and all that it has
MERGED = (LEASE, FAILURE, FACT, SITUATION, CANARY, TRIAGE)
TABLES = (SCHEMA, CAMPAIGN, SHARE, *MERGED)
