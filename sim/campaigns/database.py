"""The connection to a store: transactions, errors in a sentence, and new connections for lost ones."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit
from weakref import WeakSet

from squall.sim.campaigns.address import Address, CampaignStoreError, UnusableError
from squall.sim.campaigns.tables import Table
from squall.sim.world import interrupts

T = TypeVar("T")

#: the same if nobody says otherwise, and real seconds between two tries, at first and at most
PATIENCE_S, _FIRST_WAIT_S, _LAST_WAIT_S = 3600.0, 0.25, 30.0
#: seconds for which SQLite waits for somebody who reads
_BUSY_S = 60
#: SQLSTATEs of a server that goes down or comes up, beside those of class 08 (connection)
_DOWN = frozenset({"57P01", "57P02", "57P03", "53300"})
#: after about 30 s a server that does not answer is gone; these are libpq's names
_POSTGRESQL = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


class Asked:
    """A connection, in a transaction. Commands have a ``?`` for each value."""

    def __init__(self, raw: Any, *, on_server: bool) -> None:
        self.raw, self.on_server = raw, on_server

    def ask(self, command: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that it returns."""
        cursor = self.raw.execute(self._text(command), values)
        return [] if cursor.description is None else cursor.fetchall()

    def add(
        self, table: Table, rows: Sequence[Mapping[str, object]], then: str = "DO NOTHING"
    ) -> None:
        """Those whose key is not there yet; ``then``: what is done with the others."""
        if rows:
            names, marks = ", ".join(rows[0]), ", ".join("?" * len(rows[0]))
            command = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"
            command += f" ON CONFLICT {then}"
            values = [tuple(row.values()) for row in rows]
            self.raw.cursor().executemany(self._text(command), values)

    def put(self, table: Table, row: Mapping[str, object]) -> None:
        """A row, or what it says anew of one that is there."""
        said = ", ".join(f"{name} = excluded.{name}" for name in row if name not in table.key)
        self.add(table, [row], f"({', '.join(table.key)}) DO UPDATE SET {said}")

    def tables(self) -> set[str]:
        """The names of those that are there."""
        there = "pg_tables WHERE schemaname = current_schema()" if self.on_server else ""
        there = there or "sqlite_master WHERE type = 'table'"
        return {name for (name,) in self.ask(f"SELECT {'table' * self.on_server}name FROM {there}")}

    @contextmanager
    def transaction(self) -> Iterator[Asked]:
        self.ask("BEGIN")
        try:
            yield self
            self.ask("COMMIT")
        except BaseException:
            with suppress(Exception):  # the connection may be lost
                self.ask("ROLLBACK")
            raise

    def _text(self, command: str) -> str:
        return command.replace("%", "%%").replace("?", "%s") if self.on_server else command


class Database:
    """``on_connect`` is called with each new connection to a server, the first one included.
    ``tell`` gets a line when a server is lost, and one when it is there again. ``patience_s``: real
    seconds for which a lost server is tried again."""

    def __init__(
        self,
        address: Address,
        *,
        create: bool,
        on_connect: Callable[[Asked], object] = lambda asked: None,
        tell: Callable[[str], object] = lambda line: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.address, self._create = address, create
        self._on_connect, self._tell, self.patience_s = on_connect, tell, patience_s
        self._connection: Asked | None = None
        self._errors: type[Exception] = sqlite3.Error
        try:
            self._errors = _errors(address)
            self._connect()
        except (self._errors, UnusableError) as error:
            raise self._refusal(error) from None

    def run(self, work: Callable[[Asked], T], *, again: bool = True) -> T:
        """What ``work`` returns, in a transaction. Where its server is lost, ``work`` is called
        ``again`` with a new connection: it may be that it has been done. Raises
        CampaignStoreError, and KeyboardInterrupt while it waits."""
        began, wait_s, lost = time.monotonic(), _FIRST_WAIT_S, False
        while True:
            try:
                if self._connection is None:
                    self._connect()
                assert self._connection is not None
                with self._connection.transaction() as asked:
                    found = work(asked)
            except UnusableError as error:
                raise self._refusal(error) from None
            except self._errors as error:
                if not self._is_lost(error):
                    raise self._refusal(error) from None
                self._drop()
                if not again or time.monotonic() - began > self.patience_s:
                    raise self._refusal(error) from None
                if not lost:
                    self._tell(f"{self._refusal(error)}: trying again, nothing is lost")
                lost = True
            else:
                if lost:
                    waited = time.monotonic() - began
                    self._tell(f"{self.address}: there again after {waited:.0f} s")
                return found
            _pause(wait_s)
            wait_s = min(2 * wait_s, _LAST_WAIT_S)

    def close(self) -> None:
        self._drop()

    def _connect(self) -> None:
        connection = _opened(self.address, create=self._create)
        try:
            self._on_connect(connection)
        except BaseException:
            connection.raw.close()
            raise
        self._connection = connection
        if connection.on_server:
            _ON_SERVERS.add(self)

    def leave(self) -> None:
        """In a copy of this process: the connection is not its own. Were it open there, a server
        would not see the end of the process that has it. It is not closed in order, which the
        server would take for an end of it."""
        if self._connection is None:
            return
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, self._connection.raw.fileno())
        os.close(nothing)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.raw.close()

    def _is_lost(self, error: Exception) -> bool:
        """Whether it says that there is no server to talk to."""
        if not self.address.shared:
            return False
        import psycopg

        if self._connection is not None and self._connection.raw.closed:
            return True
        if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            return False
        return error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate in _DOWN

    def _refusal(self, error: Exception) -> CampaignStoreError:
        said = str(error)
        if not isinstance(error, UnusableError):
            first = said.strip().splitlines() or [type(error).__name__]
            said = self.address.without_passwords(" ".join(first[0].split()))
        return CampaignStoreError(f"{self.address}: {said}")


#: those that have a connection to a server
_ON_SERVERS: WeakSet[Database] = WeakSet()


def _leave_all() -> None:
    for database in list(_ON_SERVERS):
        database.leave()


os.register_at_fork(after_in_child=_leave_all)


def _pause(seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        interrupts.check()
        time.sleep(min(left, 0.1))


def _errors(address: Address) -> type[Exception]:
    """What its library raises. Raises UnusableError where that is not installed."""
    if not address.shared:
        return sqlite3.Error
    try:
        import psycopg
    except ImportError:
        raise UnusableError("needs psycopg: pip install 'squall[postgresql]'") from None
    return psycopg.Error


def _opened(address: Address, *, create: bool) -> Asked:
    """Its transactions begin where we say, so that changes of the schema are part of them."""
    if address.url is not None:
        import psycopg

        said = parse_qs(urlsplit(address.url).query)
        options: dict[str, Any] = {name: v for name, v in _POSTGRESQL.items() if name not in said}
        raw = psycopg.connect(address.url, autocommit=True, **options)
        return Asked(raw, on_server=True)
    assert address.file is not None
    uri = f"{address.file.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
    file = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
    file.execute("PRAGMA synchronous=FULL")
    return Asked(file, on_server=False)
