"""``multiprocessing`` inside a process of a script, on either engine: its semaphores, pipes, listeners and
children are those of sim/scripts/exchange.py. What is built on them (queues, events, barriers, pools,
managers) is the standard library's.

On the engine port, where all processes are in one, each of them executes this module for itself.
"""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Callable, Iterable
from multiprocessing import connection, context
from typing import Any

_connection: Any = connection
_RECURSIVE = 0
_MOST = 2**31 - 1
_wait_outside: Callable[..., list[Any]] = connection.wait
#: asks the coordinator, in words; called by who asks whether something has happened
_ask: Any = None
_look: Any = None


def settle(ask: Callable[..., Any], look: Callable[[], object]) -> None:
    """For the process that this module is executed in."""
    global _ask, _look
    _ask, _look = ask, look


class SemLock:
    """``_multiprocessing.SemLock``: a semaphore, or a lock that its thread may take again."""

    __slots__ = ("_held", "_thread", "handle", "kind", "maxvalue")
    SEM_VALUE_MAX = _MOST
    #: known to no operating system
    name = None

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        self._settle(_ask("exchange semaphore", value), kind, maxvalue)

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
            _look()
            timeout = 0.0
        elif timeout is not None:
            timeout = max(0.0, timeout)
        taken: bool = _ask("semaphore acquire", self.handle, timeout)
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
            _ask("semaphore release", self.handle, _MOST)
        elif _ask("semaphore release", self.handle, self.maxvalue):
            self._held -= 1
        else:
            raise ValueError("semaphore or lock released too many times")

    def _count(self) -> int:
        return self._held

    def _is_mine(self) -> bool:
        return self._held > 0 and self._thread == threading.get_ident()

    def _get_value(self) -> int:
        _look()
        value: int = _ask("semaphore value", self.handle)
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

    def _close(self) -> None:
        _ask("exchange close", self._handle)

    def _send_bytes(self, buf: Any) -> None:
        # What has been pickled goes as it is: more than its bytes may belong to it.
        whole = getattr(buf, "obj", buf)
        data = whole if isinstance(whole, bytes) and len(whole) == len(buf) else bytes(buf)
        if not _ask("exchange send", self._handle, data):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def _recv_bytes(self, maxsize: int | None = None) -> io.BytesIO | None:
        data: bytes | None = _ask("exchange receive", self._handle)
        if data is None:
            raise EOFError
        return None if maxsize is not None and len(data) > maxsize else _Received(data)

    def _poll(self, timeout: float | None) -> bool:
        return bool(connection.wait([self], timeout))

    def __reduce__(self) -> tuple[Any, ...]:
        # Who is forked has it anyway.
        passed = not getattr(context.get_spawning_popen(), "is_fork", False)
        number = self.fileno()
        if passed:
            _ask("exchange passed", number)
        return _reached, (number, self._readable, self._writable, passed)


def _reached(number: int, readable: bool, writable: bool, passed: bool) -> Connection:
    if passed:
        _ask("exchange reached", number)
    return Connection(number, readable, writable)


class _Received(io.BytesIO):
    """A message, from its end on; as a whole it is what was sent."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.seek(0, io.SEEK_END)
        self._data = data

    def getvalue(self) -> bytes:
        return self._data

    def getbuffer(self) -> Any:
        return self._data


def _pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    first, second = _ask("exchange pipe")
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
        self._place: str | None = _ask("exchange listen", asked)
        if self._place is None:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._address = self._place if asked is None else address

    @property
    def address(self) -> Any:
        return self._address

    def accept(self) -> Connection:
        if self._place is None:
            raise OSError("listener is closed")
        accepted = Connection(_ask("exchange accept", self._place))
        if self._authkey is not None:
            _connection.deliver_challenge(accepted, self._authkey)
            _connection.answer_challenge(accepted, self._authkey)
        return accepted

    def close(self) -> None:
        if self._place is not None:
            _ask("exchange leave", self._place)
            self._place = None

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _client(address: Any, family: str | None = None, authkey: Any = None) -> Connection:
    if authkey is not None and not isinstance(authkey, bytes):
        raise TypeError("authkey should be a byte string")
    end = _ask("exchange connect", _place(address))
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
        _look()
    return [numbers[each] for each in _ask("wait any", list(numbers), timeout)]


class Popen:
    """What ``multiprocessing`` has of a process that it has started; ``pid``: that of the process."""

    def __init__(self, pid: int, kept: object = None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        #: what it stands for where it is waited for with others (multiprocessing.connection.wait)
        self.sentinel = -pid
        self._kept = kept

    def poll(self, flag: int = 0) -> int | None:
        if self.wait(0) is None:
            _look()  # whoever polls lets time go on
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        if self.returncode is None:
            self.returncode = _ask("child wait", [self.pid], timeout).get(self.pid)
        return self.returncode

    def terminate(self) -> None:
        self._end(15)

    def kill(self) -> None:
        self._end(9)

    def _end(self, signal: int) -> None:
        if self.returncode is None:
            _ask("child kill", self.pid, signal)

    def close(self) -> None:
        """Nothing is open."""


def into_connection(module: Any) -> None:
    """Each of these changes the module of the standard library that it is called after."""
    module.Connection, module.Pipe = Connection, _pipe
    module.Listener, module.Client, module.wait = Listener, _client, _wait


def into_synchronize(module: Any) -> None:
    # A process that is forked gets what it is given as any other does, pickled.
    module.SemLock._is_fork_ctx = property(lambda _: False, lambda *_: None)


def into_resource_tracker(module: Any) -> None:
    # Each process would start one of its own, and take for lost what its child still has.
    for name in ("register", "unregister"):
        setattr(module, name, lambda *_: None)


def into_managers(module: Any) -> None:
    # Its server would look each second whether it is to stop, even where nothing can happen any more.
    module.Server.stop_event = property(lambda self: self._stop, _stop_without_looking)


def _stop_without_looking(server: Any, event: Any) -> None:
    wait = event.wait
    vars(event)["wait"] = lambda timeout=None: wait()
    server._stop = event
