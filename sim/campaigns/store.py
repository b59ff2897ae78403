"""What a campaign has come to, in one SQLite file with one writer: a lease is there whole or not."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from squall.sim.campaigns.lease import Row, digest_of
from squall.sim.campaigns.plan import Lease

_SCHEMA = """
CREATE TABLE IF NOT EXISTS campaign (said TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS lease (
    part TEXT, first INTEGER, stop INTEGER NOT NULL, digest TEXT NOT NULL, events INTEGER NOT NULL,
    PRIMARY KEY (part, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failure (
    part TEXT, seed INTEGER, property TEXT NOT NULL, what TEXT NOT NULL, digest TEXT NOT NULL,
    text TEXT NOT NULL, PRIMARY KEY (part, seed)) WITHOUT ROWID;
"""
#: SQLite takes the other columns of a group from the row that has the least key
_KINDS = """
SELECT property, what, part, seed, digest, text, count(*), min(printf('%s %020d', part, seed)) AS key
FROM failure GROUP BY property, what ORDER BY key
"""
#: what the tables of verdicts have; the texts of failures are for readers
_VERDICTS = (
    ("lease", "SELECT part, first, stop, digest, events FROM lease ORDER BY part, first"),
    ("failure", "SELECT part, seed, property, what, digest FROM failure ORDER BY part, seed"),
)


class CampaignStoreError(Exception):
    """The file cannot be used: which one, and why."""


class Kind(NamedTuple):
    """A kind of failure: the first scenario that showed it, and how many have."""

    property: str
    what: str
    part: str
    seed: int
    digest: str
    text: str
    scenarios: int = 1


class CampaignStore:
    """``said``: what decides the verdicts of the campaign, which a resumed one must say as well.

    Its methods raise CampaignStoreError. What was taken stays, whatever ends the process.
    """

    def __init__(self, file: Path, said: dict[str, str], *, resume: bool) -> None:
        self.file, self.said = file, said
        try:
            # Such a lock is of one process: the copies that judge do not hold it, should the
            # driver be killed.
            self._lock = file.with_name(f"{file.name}.lock").open("w")
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            if isinstance(error, PermissionError) and error.filename:
                raise CampaignStoreError(f"{file}: {error.strerror}") from None
            raise CampaignStoreError(f"{file}: another campaign is writing into it") from None
        except OSError as error:
            raise CampaignStoreError(f"{file}: {error.strerror}") from None
        with _told(file):
            self._db = sqlite3.connect(_uri(file, "rwc"), uri=True)
            self._db.executescript(f"PRAGMA synchronous=FULL;{_SCHEMA}")
            known = self._db.execute("SELECT said FROM campaign").fetchone()
            if known is None:
                with self._db:
                    self._db.execute("INSERT INTO campaign VALUES (?)", [json.dumps(said)])
        if known is None:
            return
        if not resume:
            raise CampaignStoreError(f"{file}: holds a campaign; --resume goes on with it")
        check_same(file, json.loads(known[0]), said)

    def has(self, lease: Lease) -> bool:
        with _told(self.file):
            found = self._db.execute(
                "SELECT 1 FROM lease WHERE part = ? AND first = ?",
                [lease.part.name, lease.seeds.start],
            )
            return found.fetchone() is not None

    def take(self, lease: Lease, rows: list[Row]) -> bool:
        """Keep what came of a lease; on disk when this returns. False if it was there before."""
        name, seeds = lease.part.name, lease.seeds
        events = sum(row.events for row in rows)
        with _told(self.file), self._db:
            added = self._db.execute(
                "INSERT OR IGNORE INTO lease VALUES (?, ?, ?, ?, ?)",
                [name, seeds.start, seeds.stop, digest_of(lease, rows), events],
            ).rowcount
            if added:
                self._db.executemany(
                    "INSERT INTO failure VALUES (?, ?, ?, ?, ?, ?)",
                    [(name, *row[:4], row.text) for row in rows if row.property],
                )
        return bool(added)

    def absorb(self, other: Path) -> None:
        """Take over all that another file has; nothing of it, if the two have judged a lease
        differently."""
        with _told(other):
            self._db.execute("ATTACH ? AS other", [_uri(other, "rw")])
        try:
            with _told(other), self._db:
                differs = self._db.execute(
                    "SELECT there.part, there.first FROM other.lease AS there "
                    "JOIN lease AS here USING (part, first) WHERE there.digest <> here.digest"
                ).fetchone()
                if differs is None:
                    for table in ("lease", "failure"):
                        self._db.execute(
                            f"INSERT OR IGNORE INTO {table} SELECT * FROM other.{table}"
                        )
        finally:
            with _told(other):
                self._db.execute("DETACH other")
        if differs is not None:
            raise CampaignStoreError(
                f"{other}: its verdicts on the seeds from {differs[1]} on, part {differs[0]}, are not "
                f"those of {self.file}"
            )

    def lines(self) -> Iterator[str]:
        """The table of verdicts: a line a lease, and one a failure."""
        with _told(self.file):
            for table, question in _VERDICTS:
                for row in self._db.execute(question):
                    yield json.dumps([table, *row]) + "\n"

    def verdicts(self) -> str:
        """A hash over :meth:`lines`: campaigns with the same verdicts have the same."""
        seen = blake2b(digest_size=16)
        for line in self.lines():
            seen.update(line.encode())
        return seen.hexdigest()

    def kinds(self) -> list[Kind]:
        """The failures, each kind once: by property and what broke."""
        with _told(self.file):
            return [Kind(*row[:7]) for row in self._db.execute(_KINDS)]

    def counts(self) -> tuple[int, int, int]:
        """Seeds judged, how many of them failed, and events."""
        with _told(self.file):
            judged, events = self._db.execute(
                "SELECT coalesce(sum(stop - first), 0), coalesce(sum(events), 0) FROM lease"
            ).fetchone()
            (failed,) = self._db.execute("SELECT count(*) FROM failure").fetchone()
        return judged, failed, events

    def judged(self) -> dict[str, int]:
        """By part, how many numbers have a verdict."""
        with _told(self.file):
            return dict(
                self._db.execute(
                    "SELECT part, sum(stop - first) FROM lease GROUP BY part"
                ).fetchall()
            )

    def close(self) -> None:
        self._db.close()
        self._lock.close()


def said_in(file: Path) -> dict[str, str]:
    """What decides the verdicts that a file holds. Raises CampaignStoreError."""
    with _told(file), closing(sqlite3.connect(_uri(file, "rw"), uri=True)) as db:
        known = db.execute("SELECT said FROM campaign").fetchone()
    if known is None:
        raise CampaignStoreError(f"{file}: holds no campaign")
    said: dict[str, str] = json.loads(known[0])
    return said


def check_same(file: Path, before: dict[str, str], now: dict[str, str]) -> None:
    """Raises CampaignStoreError for the first thing that decides verdicts and is different now."""
    for name, value in now.items():
        if before.get(name) != value:
            raise CampaignStoreError(
                f"{file}: {name} was {before.get(name)!r} and is {value!r} now: verdicts would differ"
            )


def _uri(file: Path, mode: str) -> str:
    return f"{file.absolute().as_uri()}?mode={mode}"


@contextmanager
def _told(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise CampaignStoreError(f"{file}: {error}") from None
