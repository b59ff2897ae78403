"""Pipes between simulated processes: ``multiprocessing``'s.

What is sent is pickled, as between real processes.
"""

from __future__ import annotations

import errno
import os
import pickle
from collections import deque
from multiprocessing import BufferTooShort
from typing import TYPE_CHECKING, Any

from squall.real.runtime import current_task_or_none
from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.compat.clock import look
from squall.sim.scripts.compat.process import SimProcess, current_process
from squall.sim.scripts.compat.shared import Shared, condition

if TYPE_CHECKING:
    from squall.real.runtime import Condition, Event


class Connection(Shared):
    """One end of a pipe, which each process that has it closes for itself."""

    def __init__(self, lock: Any, changed: Condition) -> None:
        super().__init__()
        self._lock = lock
        self._changed = changed
        #: what has come, and whether it was sent as bytes
        self._inbox: deque[tuple[Parcel, bool]] = deque()
        self._other: Connection | None = None
        self._readable = self._writable = True
        self.watchers: list[Event] = []
        #: who has it, and who has closed it; and how often it is on its way to somebody
        self._holders = {current_process()}
        self._closed: set[SimProcess] = set()
        self._on_the_way = 0

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        self._on_the_way += 1
        return super().__reduce__()

    def reached(self, process: SimProcess) -> None:
        self._on_the_way = max(0, self._on_the_way - 1)
        self._closed.discard(process)
        self._holders.add(process)

    def inherited(self, parent: SimProcess, child: SimProcess) -> None:
        if parent in self._holders:
            self._holders.add(child)

    def left(self, process: SimProcess) -> None:
        if process in self._holders:
            self._holders.discard(process)
            self._tell_other()

    @property
    def closed(self) -> bool:
        return current_process() in self._closed

    def _check(self) -> None:
        if self.closed:
            raise OSError("handle is closed")
        self._holders.add(current_process())

    def _tell_other(self) -> None:
        self._changed.notify_all()
        for watcher in self._far_end.watchers:
            watcher.set()

    @property
    def _far_end(self) -> Connection:
        assert self._other is not None, "a pipe has two ends"
        return self._other

    @property
    def _is_held(self) -> bool:
        return bool(self._holders or self._on_the_way)

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
        self._check()
        if not self._writable:
            raise OSError("connection is read-only")
        parcel = Parcel(obj, current_process().space)
        with self._lock:
            if not self._far_end._is_held:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            self._far_end._inbox.append((parcel, raw))
            self._tell_other()

    def recv(self) -> Any:
        """Raises OSError if this end only sends, EOFError if nobody is left who could send."""
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
        self._check()
        if not self._readable:
            raise OSError("connection is write-only")
        with self._lock:
            self._changed.wait_for(self.is_ready)
            if not self._inbox:
                raise EOFError
            return self._inbox.popleft()

    def poll(self, timeout: float | None = 0.0) -> bool:
        self._check()
        if not timeout:
            look()
        with self._lock:
            return self._changed.wait_for(self.is_ready, timeout)

    def is_ready(self) -> bool:
        return bool(self._inbox) or not self._far_end._is_held

    def close(self) -> None:
        """Another process that has the same end goes on with it."""
        if current_task_or_none() is not None:
            process = current_process()
            self._closed.add(process)
            self.left(process)

    def __str__(self) -> str:
        return "a pipe between processes"

    def fileno(self) -> int:
        self._check()
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
