"""Pipes between simulated processes: ``multiprocessing``'s.

What is sent is pickled, as between real processes.
"""

from __future__ import annotations

import pickle
from collections import deque
from multiprocessing import BufferTooShort
from typing import TYPE_CHECKING, Any

from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.compat.clock import look
from squall.sim.scripts.compat.process import current_process
from squall.sim.scripts.compat.shared import Shared, condition

if TYPE_CHECKING:
    from squall.real.runtime import Condition, Event


class Connection(Shared):
    """One end of a pipe."""

    def __init__(self, lock: Any, changed: Condition) -> None:
        super().__init__()
        self._lock = lock
        self._changed = changed
        #: what has come, and whether it was sent as bytes
        self._inbox: deque[tuple[Parcel, bool]] = deque()
        self._other: Connection | None = None
        self._readable = self._writable = True
        self.watchers: list[Event] = []

    @property
    def closed(self) -> bool:
        return False

    @property
    def readable(self) -> bool:
        return self._readable

    @property
    def writable(self) -> bool:
        return self._writable

    def send(self, obj: Any) -> None:
        """Raises OSError if this end only receives."""
        self._send(obj, raw=False)

    def send_bytes(self, buf: Any, offset: int = 0, size: int | None = None) -> None:
        """Raises OSError if this end only receives, ValueError for bytes that are not there."""
        whole = memoryview(buf).cast("B")
        if offset < 0:
            raise ValueError("offset is negative")
        if offset > len(whole):
            raise ValueError("buffer length < offset")
        if size is None:
            size = len(whole) - offset
        elif size < 0:
            raise ValueError("size is negative")
        elif offset + size > len(whole):
            raise ValueError("buffer length < offset + size")
        self._send(bytes(whole[offset : offset + size]), raw=True)

    def _send(self, obj: Any, *, raw: bool) -> None:
        if not self._writable:
            raise OSError("connection is read-only")
        parcel = Parcel(obj, current_process().space)
        other = self._other
        assert other is not None, "a pipe has two ends"
        with self._lock:
            other._inbox.append((parcel, raw))
            self._changed.notify_all()
        for watcher in other.watchers:
            watcher.set()

    def recv(self) -> Any:
        """Raises OSError if this end only sends."""
        parcel, raw = self._receive()
        found = parcel.open()
        return pickle.loads(found) if raw else found

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        """Raises OSError if this end only sends, or for more bytes than asked for."""
        if maxlength is not None and maxlength < 0:
            raise ValueError("negative maxlength")
        parcel, raw = self._receive()
        found: bytes = parcel.open() if raw else pickle.dumps(parcel.open())
        if maxlength is not None and len(found) > maxlength:
            raise OSError("bad message length")
        return found

    def recv_bytes_into(self, buf: Any, offset: int = 0) -> int:
        """The number of bytes that have come. Raises ``BufferTooShort`` if they do not fit in."""
        room = memoryview(buf).cast("B")
        if not 0 <= offset <= len(room):
            raise ValueError("negative offset" if offset < 0 else "offset too large")
        found = self.recv_bytes()
        if len(found) > len(room) - offset:
            raise BufferTooShort(found)
        room[offset : offset + len(found)] = found
        return len(found)

    def _receive(self) -> tuple[Parcel, bool]:
        if not self._readable:
            raise OSError("connection is write-only")
        with self._lock:
            self._changed.wait_for(self.is_ready)
            return self._inbox.popleft()

    def poll(self, timeout: float | None = 0.0) -> bool:
        if not timeout:
            look()
        with self._lock:
            return self._changed.wait_for(self.is_ready, timeout)

    def is_ready(self) -> bool:
        return bool(self._inbox)

    def close(self) -> None:
        """Nothing: another process may hold the same end, and goes on with it."""

    def __str__(self) -> str:
        return "a pipe between processes"

    def fileno(self) -> int:
        return self._key

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    lock, changed = condition("a pipe between processes")
    first, second = Connection(lock, changed), Connection(lock, changed)
    first._other, second._other = second, first
    if not duplex:
        first._writable = second._readable = False
    return first, second
