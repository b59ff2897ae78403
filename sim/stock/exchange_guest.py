"""Inside a worker process of a script: the semaphores, pipes and listeners of ``multiprocessing``.

What is built on them (queues, events, barriers, pools, managers) is the standard library's.
"""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Callable, Iterable
from multiprocessing import connection, managers, pool, resource_tracker, synchronize
from typing import Any, ClassVar

from squall.real.native.here import Here

_connection: Any = connection
_synchronize: Any = synchronize
_RECURSIVE = 0
_MOST = 2**31 - 1
_wait_outside: Callable[..., list[Any]] = connection.wait


class SemLock:
    """``_multiprocessing.SemLock``: a semaphore, or a lock that its thread may take again."""

    here: ClassVar[Here]
    look: ClassVar[Callable[[], object]]
    SEM_VALUE_MAX = _MOST
    #: known to no operating system
    name = None

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        self._settle(self.here.ask("exchange semaphore", value), kind, maxvalue)

    def _settle(self, handle: int, kind: int, maxvalue: int) -> None:
        self.handle, self.kind, self.maxvalue = handle, kind, maxvalue
        self._held, self._thread = 0, 0

    @classmethod
    def _rebuild(cls, handle: int, kind: int, maxvalue: int, name: None) -> SemLock:
        made = cls.__new__(cls)
        made._settle(handle, kind, maxvalue)
        return made

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        if self.kind == _RECURSIVE and self._is_mine():
            self._held += 1
            return True
        if not block:
            SemLock.look()
            timeout = 0.0
        elif timeout is not None:
            timeout = max(0.0, timeout)
        taken: bool = self.here.ask("semaphore acquire", self.handle, timeout)
        if taken:
            self._held, self._thread = self._held + 1, threading.get_ident()
        return taken

    def release(self) -> None:
        if self.kind == _RECURSIVE:
            if not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self._held > 1:
                self._held -= 1
                return
            self._held -= 1
            self.here.ask("semaphore release", self.handle, _MOST)
        elif self.here.ask("semaphore release", self.handle, self.maxvalue):
            self._held -= 1
        else:
            raise ValueError("semaphore or lock released too many times")

    def _count(self) -> int:
        return self._held

    def _is_mine(self) -> bool:
        return self._held > 0 and self._thread == threading.get_ident()

    def _get_value(self) -> int:
        SemLock.look()
        value: int = self.here.ask("semaphore value", self.handle)
        return value

    def _is_zero(self) -> bool:
        return self._get_value() == 0

    def _after_fork(self) -> None:
        self._held = 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Connection(_connection._ConnectionBase):  # type: ignore[misc]
    """One end of a pipe; its handle is its number at the coordinator."""

    here: ClassVar[Here]
    look: ClassVar[Callable[[], object]]

    def _close(self) -> None:
        self.here.ask("exchange close", self._handle)

    def _send_bytes(self, buf: Any) -> None:
        if not self.here.ask("exchange send", self._handle, bytes(buf)):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def _recv_bytes(self, maxsize: int | None = None) -> io.BytesIO | None:
        data: bytes | None = self.here.ask("exchange receive", self._handle)
        if data is None:
            raise EOFError
        if maxsize is not None and len(data) > maxsize:
            return None
        received = io.BytesIO()
        received.write(data)  # it is asked where that ends
        return received

    def _poll(self, timeout: float | None) -> bool:
        return bool(connection.wait([self], timeout))

    def __reduce__(self) -> tuple[Any, ...]:
        self.here.ask("exchange passed", self.fileno())
        return _reached, (self._handle, self._readable, self._writable)


def _reached(handle: int, readable: bool, writable: bool) -> Connection:
    Connection.here.ask("exchange reached", handle)
    return Connection(handle, readable, writable)


def _pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    first, second = Connection.here.ask("exchange pipe")
    if duplex:
        return Connection(first), Connection(second)
    return Connection(first, writable=False), Connection(second, readable=False)


class Listener:
    """``multiprocessing.connection.Listener``, at an address of this run."""

    last_accepted = None

    def __init__(
        self, address: Any = None, family: str | None = None, backlog: int = 1, authkey: Any = None
    ) -> None:
        if authkey is not None and not isinstance(authkey, bytes):
            raise TypeError("authkey should be a byte string")
        self._authkey = authkey
        asked = None if address in (None, "") else _place(address)
        self._place: str | None = Connection.here.ask("exchange listen", asked)
        if self._place is None:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.address = self._place if asked is None else address

    def accept(self) -> Connection:
        if self._place is None:
            raise OSError("listener is closed")
        accepted = Connection(Connection.here.ask("exchange accept", self._place))
        if self._authkey is not None:
            _connection.deliver_challenge(accepted, self._authkey)
            _connection.answer_challenge(accepted, self._authkey)
        return accepted

    def close(self) -> None:
        if self._place is not None:
            Connection.here.ask("exchange leave", self._place)
            self._place = None

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _client(address: Any, family: str | None = None, authkey: Any = None) -> Connection:
    if authkey is not None and not isinstance(authkey, bytes):
        raise TypeError("authkey should be a byte string")
    end = Connection.here.ask("exchange connect", _place(address))
    if end is None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    called = Connection(end)
    if authkey is not None:
        _connection.answer_challenge(called, authkey)
        _connection.deliver_challenge(called, authkey)
    return called


def _place(address: Any) -> str:
    """One machine has all ranks: only the port counts."""
    return f"port {address[1]}" if isinstance(address, tuple) else str(address)


def _wait(objects: Iterable[Any], timeout: float | None = None) -> list[Any]:
    """``multiprocessing.connection.wait``, for processes and pipes of the coordinator."""
    objects = list(objects)
    numbers = {
        ("end", each.fileno()) if isinstance(each, Connection) else ("child", each): each
        for each in objects
        if isinstance(each, Connection) or (isinstance(each, int) and each < 0)
    }
    if len(numbers) < len(objects):
        return _wait_outside(objects, timeout)
    if timeout is not None and timeout <= 0:
        Connection.look()
    return [numbers[each] for each in Connection.here.ask("wait any", list(numbers), timeout)]


def install(here: Here, look: Callable[[], object]) -> None:
    """For what the script makes from now on. ``look``: called by who asks whether something has happened."""
    for each in (SemLock, Connection):
        each.here, each.look = here, look
    _synchronize._multiprocessing.SemLock = SemLock
    # A process that is forked gets what it is given as any other does, pickled.
    _synchronize.SemLock._is_fork_ctx = property(lambda _: False, lambda *_: None)
    # Each process would start one of its own, and take for lost what its child still has.
    for name in ("register", "unregister"):
        setattr(resource_tracker, name, lambda *_: None)
    _connection.Connection, _connection.Pipe = Connection, _pipe
    _connection.Listener, _connection.Client = Listener, _client
    _connection.wait = vars(pool)["wait"] = _wait
    vars(managers)["listener_client"].update(pickle=(Listener, _client))
