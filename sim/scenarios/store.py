"""Failures that were found, kept under ``.squall/`` so that no kill can lose one.

    with Store() as store:
        kept = store.keep(saved, found_by="fuzz")     # on disk when this returns
        print(kept.replay)

A failure is a scenario file and a row in a SQLite database. The file is written and synced under
another name first and then renamed; the row comes after it. So at every moment each row has its
whole file, and whoever prints a failure after :meth:`Store.keep` prints one that is there.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import shlex
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from squall.sim.scenario import Scenario

#: the environment variable that names another folder
FOLDER_VARIABLE = "SQUALL_STORE"
FOLDER = ".squall"
#: version of the tables; a database of another one is refused
SCHEMA = 1
#: real seconds to wait for another process that writes
_BUSY_S = 30.0

# A seed may need all 64 bits, and integers of SQLite have a sign: it is text.
_TABLES = """
CREATE TABLE IF NOT EXISTS failures (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    found_at REAL NOT NULL,
    found_by TEXT NOT NULL,
    seed TEXT NOT NULL,
    profile TEXT,
    property TEXT,
    what TEXT,
    text TEXT,
    digest TEXT,
    workers INTEGER,
    operations INTEGER,
    faults INTEGER NOT NULL,
    file TEXT NOT NULL
)
"""
_COLUMNS = (
    "name", "found_at", "found_by", "seed", "profile", "property", "what", "text", "digest",
    "workers", "operations", "faults", "file",
)  # fmt: skip


class StoreError(RuntimeError):
    """The store cannot be used: where it is, and why."""


class Kept(NamedTuple):
    """A row. ``found_at`` in seconds since 1970, ``file`` within the folder of the store."""

    name: str
    found_at: float
    found_by: str
    seed: int
    profile: str | None
    property: str | None
    what: str | None
    #: the first violation in full
    text: str | None
    digest: str | None
    workers: int | None
    operations: int | None
    faults: int
    file: str

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "replay": self.replay}

    @builtins.property  # a field has that name too
    def replay(self) -> str:
        """A command line that shows the failure again."""
        return shlex.join(["squall", "replay", self.file])

    @builtins.property
    def timeline(self) -> str:
        """A command line that makes a page of it."""
        return shlex.join(["squall", "timeline", self.file])


@dataclass(frozen=True)
class Place:
    """Where a store is."""

    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / "failures.db"

    @property
    def scenarios(self) -> Path:
        return self.folder / "scenarios"


def default_place() -> Place:
    """``.squall`` in the working directory, or what the environment names."""
    return Place(Path(os.environ.get(FOLDER_VARIABLE) or FOLDER))


class Store:
    """The failures of one folder. Opened for use by ``with``; several processes may share it."""

    def __init__(self, place: Place | None = None, *, read_only: bool = False) -> None:
        self.place = place or default_place()
        self._read_only = read_only
        self._open: sqlite3.Connection | None = None

    def __enter__(self) -> Store:
        if self._read_only and not self.place.database.exists():
            return self
        try:
            if not self._read_only:
                self.place.scenarios.mkdir(parents=True, exist_ok=True)
            self._open = self._connect()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self.place.database}: {_reason(error)}") from None
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def keep(self, saved: Scenario, *, found_by: str, text: str = "") -> Kept:
        """Write a failure down; one that is there already stays as it is.

        ``saved.expected`` says what failed, ``text`` in full. Everything is on disk when this
        returns. Raises StoreError.
        """
        if self._open is None:
            raise StoreError(f"{self.place.database}: is not open for writing")
        # Not before it is needed: this brings torch with it.
        from squall.sim.scenarios.file import dump_scenario, name_of

        name = name_of(saved)
        file = self.place.scenarios / f"{name}.json"
        expected = saved.expected
        kept = Kept(
            name=name,
            found_at=time.time(),
            found_by=found_by,
            seed=saved.seed,
            profile=saved.profile,
            property=expected.property,
            what=expected.what,
            text=text,
            digest=expected.digest,
            workers=saved.workers,
            operations=saved.operations,
            faults=len(saved.faults),
            file=str(file),
        )
        values = [str(v) if k == "seed" else v for k, v in kept._asdict().items()]
        marks = ", ".join("?" * len(_COLUMNS))
        try:
            write_synced(file, dump_scenario(saved))
            with self._open:
                self._open.execute(
                    f"INSERT OR IGNORE INTO failures ({', '.join(_COLUMNS)}) VALUES ({marks})",
                    values,
                )
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self.place.folder}: {_reason(error)}") from None
        return kept

    def failures(self) -> list[Kept]:
        """All of them, in the order in which they were found."""
        if self._open is None:
            return []
        rows = self._open.execute(f"SELECT {', '.join(_COLUMNS)} FROM failures ORDER BY id")
        return [_kept(row) for row in rows]

    def find(self, name: str) -> Kept | None:
        """The failure of that name, or whose name alone begins so."""
        found = [kept for kept in self.failures() if kept.name.startswith(name)]
        exact = [kept for kept in found if kept.name == name]
        return exact[0] if exact else found[0] if len(found) == 1 and len(name) >= 4 else None

    def scenario(self, kept: Kept) -> Scenario:
        """The scenario of a failure. Raises OSError or ValueError if its file was touched."""
        from squall.sim.scenarios.file import load_scenario

        return load_scenario(Path(kept.file))

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.place.database, timeout=_BUSY_S)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a commit is on disk
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, SCHEMA):
                raise sqlite3.DatabaseError(f"tables of version {version}, expected {SCHEMA}")
            with connection:
                connection.execute(_TABLES)
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
        except BaseException:
            connection.close()
            raise
        return connection


def write_synced(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, whatever ends the process."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    with _opened_folder(path.parent) as folder:
        os.fsync(folder)


@contextlib.contextmanager
def _opened_folder(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


def _kept(row: tuple[Any, ...]) -> Kept:
    values = dict(zip(_COLUMNS, row, strict=True))
    return Kept(**{**values, "seed": int(values["seed"])})


def _reason(error: OSError | sqlite3.Error) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
