"""One writer of a file, one driver of a share: whoever comes second is refused."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
import zlib
from pathlib import Path

from squall.sim.campaigns.address import UnusableError
from squall.sim.campaigns.database import Asked

#: tries, and seconds between two, to get a lock that an earlier connection of this driver had
_TRIES, _BETWEEN_S = 50, 0.1
#: numbers of PostgreSQL's advisory locks: shares have their index; then those of how many there
#: are; who looks at these or changes the schema
_OF, _GATE = 1_000_000, 2_000_000
_HOLDERS = """
SELECT lock.objid, lock.pid, coalesce(activity.application_name, '') FROM pg_locks AS lock
LEFT JOIN pg_stat_activity AS activity ON activity.pid = lock.pid
WHERE lock.locktype = 'advisory' AND lock.objsubid = 2 AND lock.granted
AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND CAST(lock.classid AS bigint) = ? AND lock.pid <> pg_backend_pid()
"""


class FileLock:
    """The right to write into a file. Raises UnusableError."""

    def __init__(self, file: Path) -> None:
        try:
            # Such a lock is of one process: the copies that judge do not hold it, should the
            # driver be killed.
            self._file = file.with_name(f"{file.name}.lock").open("w")
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            if isinstance(error, PermissionError) and error.filename:
                raise UnusableError(error.strerror) from None
            raise UnusableError("another campaign is writing into it") from None
        except OSError as error:
            raise UnusableError(error.strerror) from None

    def close(self) -> None:
        self._file.close()


class ShareLock:
    """The right to write a share into a database, which each new connection asks for again.

    The whole campaign is a share too; of one campaign, as many shares are written at a time as
    the first one says. Connections of this driver that a server still holds are ended.
    """

    def __init__(self, index: int, of: int) -> None:
        self.index, self.of = index, of
        #: tells the connections of this driver from others; PostgreSQL keeps 63 characters
        self._name = f"squall {secrets.token_hex(8)} {os.getpid()} {socket.gethostname()}"[:63]

    def take(self, connection: Asked) -> None:
        """Raises UnusableError if another driver has it."""
        with connection.transaction() as asked:
            asked.ask("SELECT set_config('application_name', ?, false)", self._name)
            gate(asked)
            space = _space(asked)
            for _ in range(_TRIES):
                if self._is_free(asked, space):
                    break
                time.sleep(_BETWEEN_S)
            asked.ask("SELECT pg_advisory_lock(?, ?)", space, self.index)
            asked.ask("SELECT pg_advisory_lock_shared(?, ?)", space, _OF + self.of)

    def _is_free(self, asked: Asked, space: int) -> bool:
        """False while a connection of this driver has it, which is told to end."""
        holders = asked.ask(_HOLDERS, space)
        ours = {pid for _, pid, name in holders if name == self._name}
        theirs = {number for number, pid, _ in holders if pid not in ours}
        for number in sorted(theirs, reverse=True):  # those that say how many shares there are
            if _OF <= number < _GATE and number != _OF + self.of:
                shares = f"{number - _OF} shares" if number > _OF + 1 else "one"
                raise UnusableError(f"another campaign is writing into it, as {shares}")
            if number == self.index:
                share = f"share {self.index} of {self.of}" if self.of > 1 else "it"
                raise UnusableError(f"another campaign is writing into {share}")
        for pid in ours:
            asked.ask("SELECT pg_terminate_backend(?)", pid)
        return not ours


def gate(asked: Asked) -> None:
    """Let nobody else in until the end of the transaction."""
    asked.ask("SELECT pg_advisory_xact_lock(?, ?)", _space(asked), _GATE)


def _space(asked: Asked) -> int:
    """What tells the locks of a store from those of others in the same database."""
    ((schema,),) = asked.ask("SELECT current_schema()")
    return zlib.crc32(f"squall campaign {schema}".encode()) >> 1
