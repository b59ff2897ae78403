"""The connection to a store: transactions, errors in a sentence, and new connections for lost ones."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakSet

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from squall.sim.campaigns.address import Address, CampaignStoreError, UnusableError
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


class Database:
    """``on_connect`` is called with each new connection to a server, the first one included.
    ``tell`` gets a line when a server is lost, and one when it is there again. ``patience_s``: real
    seconds for which a lost server is tried again."""

    def __init__(
        self,
        address: Address,
        *,
        create: bool,
        on_connect: Callable[[Connection], object] = lambda connection: None,
        tell: Callable[[str], object] = lambda line: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.address = address
        self._on_connect, self._tell, self.patience_s = on_connect, tell, patience_s
        self._connection: Connection | None = None
        with self.told():
            self._engine = _engine(address, create)
            self._connect()

    def run(self, work: Callable[[Connection], T], *, again: bool = True) -> T:
        """What ``work`` returns, in a transaction. Where its server is lost, ``work`` is called
        ``again`` with a new connection: it may be that it has been done. Raises
        CampaignStoreError, and KeyboardInterrupt while it waits."""
        began, wait_s, lost = time.monotonic(), _FIRST_WAIT_S, False
        while True:
            try:
                with self.told(raw=_is_lost):
                    if self._connection is None:
                        self._connect()
                    assert self._connection is not None
                    with self._connection.begin():
                        found = work(self._connection)
            except DBAPIError as error:
                self._drop()
                problem = self._problem(error)
                if not again or time.monotonic() - began > self.patience_s:
                    raise CampaignStoreError(f"{self.address}: {problem}") from None
                if not lost:
                    self._tell(f"{self.address}: {problem}: trying again, nothing is lost")
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
        self._engine.dispose()

    @contextmanager
    def told(self, raw: Callable[[DBAPIError], bool] = lambda error: False) -> Iterator[None]:
        """Errors of the database become a CampaignStoreError; those that are ``raw`` do not."""
        try:
            yield
        except DBAPIError as error:
            if raw(error):
                raise
            raise CampaignStoreError(f"{self.address}: {self._problem(error)}") from None
        except SQLAlchemyError as error:
            raise CampaignStoreError(f"{self.address}: {self._said(error)}") from None
        except UnusableError as error:
            raise CampaignStoreError(f"{self.address}: {error}") from None

    def _connect(self) -> None:
        connection = self._engine.connect()
        try:
            self._on_connect(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        if self.address.file is None:
            _ON_SERVERS.add(self)

    def leave(self) -> None:
        """In a copy of this process: the connection is not its own. Were it open there, a server
        would not see the end of the process that has it. It is not closed in order, which the
        server would take for an end of it."""
        if self._connection is None:
            return
        ours = self._connection.connection.driver_connection
        assert ours is not None
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, ours.fileno())
        os.close(nothing)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _problem(self, error: DBAPIError) -> str:
        return self._said(error.orig or error)

    def _said(self, error: BaseException) -> str:
        first = str(error).strip().splitlines() or [type(error).__name__]
        return self.address.without_passwords(" ".join(first[0].split()))


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


def _is_lost(error: DBAPIError) -> bool:
    """Whether it says that there is no server to talk to."""
    if not isinstance(error, (OperationalError, InterfaceError)):
        return error.connection_invalidated
    state = getattr(error.orig, "sqlstate", "")
    return state is None or state[:2] == "08" or state in _DOWN or error.connection_invalidated


def _engine(address: Address, create: bool) -> Engine:
    if address.url is not None:
        options = {name: v for name, v in _POSTGRESQL.items() if name not in address.url.query}
        try:
            return create_engine(address.url, poolclass=NullPool, connect_args=options)
        except ImportError:
            raise UnusableError("needs psycopg: pip install 'squall[postgresql]'") from None
    assert address.file is not None
    uri = f"{address.file.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
    engine = create_engine(
        "sqlite://", poolclass=NullPool, creator=lambda: _sqlite(uri), hide_parameters=True
    )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _sqlite(uri: str) -> sqlite3.Connection:
    """Its transactions begin where we say, so that changes of the schema are part of them."""
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    return connection
