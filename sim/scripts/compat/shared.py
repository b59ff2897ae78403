"""Queues, locks and values that several simulated processes hold: ``multiprocessing``'s.

One object serves all processes: pickling it gives the receiver the same object. What is put into a
queue is pickled, as between real processes.
"""

from __future__ import annotations

import ctypes
import queue
from collections import deque
from collections.abc import Iterator
from typing import Any

from squall.real.runtime import Condition, Event, current_task, current_task_or_none
from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.compat.clock import look
from squall.sim.scripts.compat.process import SimProcess, current_process
from squall.sim.scripts.compat.waiting import wait_for_any


class Shared:
    """Base of what all processes see as one object."""

    def __init__(self) -> None:
        self._key = current_process().group.share(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return find_shared, (self._key,)

    def reached(self, process: SimProcess) -> None:
        """A process has it, too."""

    def inherited(self, parent: SimProcess, child: SimProcess) -> None:
        """A process has been forked."""

    def left(self, process: SimProcess) -> None:
        """A process has ended."""


def find_shared(key: int) -> Any:
    process = current_process()
    found = process.group.shared[key]
    found.reached(process)
    return found


def condition(what: str) -> tuple[Any, Condition]:
    runtime = current_task().runtime
    lock = runtime.lock(what)
    return lock, runtime.condition(lock, what)


class SimpleQueue(Shared):
    """``multiprocessing.SimpleQueue``."""

    def __init__(self, *, ctx: Any = None) -> None:
        self._start(0)

    def _start(self, maxsize: int) -> None:
        super().__init__()
        self._maxsize = maxsize
        self._items: deque[Parcel] = deque()
        self._unfinished = 0
        self._lock, self._changed = condition("a queue between processes")
        # What multiprocessing.pool and connection.wait reach for.
        self._reader = QueueReader(self)
        self._writer = QueueWriter(self)
        self._rlock = Synchronizer("Lock")

    def put(self, obj: Any) -> None:
        self._put(obj)

    def get(self) -> Any:
        return self._get()

    def empty(self) -> bool:
        # Between processes, somebody who polls lets the others run.
        look()
        return not self._items

    def close(self) -> None:
        """Only says that this process puts nothing more."""

    def _put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        if current_task_or_none() is None:
            return  # a destructor, after the last process has ended
        process = current_process()
        parcel = Parcel(obj, process.space)
        with self._lock:
            if self._maxsize > 0 and not self._changed.wait_for(
                lambda: len(self._items) < self._maxsize, timeout if block else 0.0
            ):
                raise _standard_queue(process).Full
            self._items.append(parcel)
            self._unfinished += 1
            self._changed.notify_all()
        for watcher in self._reader.watchers:
            watcher.set()

    def _get(self, block: bool = True, timeout: float | None = None) -> Any:
        with self._lock:
            if not self._changed.wait_for(lambda: bool(self._items), timeout if block else 0.0):
                raise queue.Empty
            parcel = self._items.popleft()
            self._changed.notify_all()
        return parcel.open()


class Queue(SimpleQueue):
    """``multiprocessing.Queue``."""

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:
        self._start(maxsize)

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Raises ``queue.Full`` if there is no room in time."""
        self._put(obj, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Raises ``queue.Empty`` if nothing is there in time."""
        return self._get(block, timeout)

    def put_nowait(self, obj: Any) -> None:
        self.put(obj, block=False)

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def full(self) -> bool:
        return 0 < self._maxsize <= len(self._items)

    def join_thread(self) -> None:
        """There is no feeder thread to wait for."""

    def cancel_join_thread(self) -> None:
        """There is no feeder thread to wait for."""


class JoinableQueue(Queue):
    """``multiprocessing.JoinableQueue``."""

    def task_done(self) -> None:
        with self._lock:
            if self._unfinished <= 0:
                raise ValueError("task_done() called too many times")
            self._unfinished -= 1
            self._changed.notify_all()

    def join(self) -> None:
        with self._lock:
            self._changed.wait_for(lambda: self._unfinished == 0)


class QueueReader:
    """The reading end of a queue, as far as the standard library uses it."""

    def __init__(self, queue: SimpleQueue) -> None:
        self._queue = queue
        self.watchers: list[Event] = []

    def is_ready(self) -> bool:
        return bool(self._queue._items)

    def recv(self) -> Any:
        return self._queue.get()

    def poll(self, timeout: float | None = 0.0) -> bool:
        return bool(wait_for_any([self], timeout))

    def close(self) -> None:
        """Nothing: other processes go on reading."""

    def __str__(self) -> str:
        return "a queue between processes"


class QueueWriter:
    """The writing end of a queue."""

    def __init__(self, queue: SimpleQueue) -> None:
        self.send = queue.put

    def close(self) -> None:
        """Nothing: other processes go on writing."""


def _standard_queue(process: SimProcess) -> Any:
    return process.space.load("queue")


class Synchronizer(Shared):
    """A lock, event, condition, semaphore or barrier: one of ``threading``'s for all processes."""

    def __init__(self, kind: str, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        threading = current_process().space.load("threading")
        self._inner: Any = getattr(threading, kind)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def acquire(self, block: bool = True, timeout: float | None = None) -> Any:
        if not block:
            return self._inner.acquire(False)
        return self._inner.acquire(**({} if timeout is None else {"timeout": max(0, timeout)}))

    def is_set(self) -> Any:
        look()  # for whoever polls
        return self._inner.is_set()

    def get_value(self) -> Any:
        return self._inner._value

    def __enter__(self) -> Any:
        return self._inner.__enter__()

    def __exit__(self, *exc: Any) -> Any:
        return self._inner.__exit__(*exc)


class SharedValue(Shared):
    """``multiprocessing.Value`` and ``Array``: a ctypes object, with a lock."""

    def __init__(self, obj: Any, lock: Any = True) -> None:
        super().__init__()
        self._obj = obj
        self._lock = Synchronizer("RLock") if lock in (True, None) else lock

    @property
    def value(self) -> Any:
        return self._obj.value

    @value.setter
    def value(self, value: Any) -> None:
        self._obj.value = value

    def get_lock(self) -> Any:
        return self._lock

    def get_obj(self) -> Any:
        return self._obj

    def acquire(self, *args: Any) -> Any:
        return self._lock.acquire(*args)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *exc: Any) -> Any:
        return self._lock.__exit__(*exc)

    def __len__(self) -> int:
        return len(self._obj)

    def __getitem__(self, index: Any) -> Any:
        return self._obj[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._obj[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._obj)


_CTYPES: dict[str, Any] = {
    "c": ctypes.c_char, "b": ctypes.c_byte, "B": ctypes.c_ubyte, "h": ctypes.c_short,
    "H": ctypes.c_ushort, "i": ctypes.c_int, "I": ctypes.c_uint, "l": ctypes.c_long,
    "L": ctypes.c_ulong, "q": ctypes.c_longlong, "Q": ctypes.c_ulonglong,
    "f": ctypes.c_float, "d": ctypes.c_double,
}  # fmt: skip


def make_value(typecode_or_type: Any, *args: Any, lock: Any = True) -> SharedValue:
    kind = _CTYPES.get(typecode_or_type, typecode_or_type)
    return SharedValue(kind(*args), lock)


def make_array(typecode_or_type: Any, size_or_init: Any, *, lock: Any = True) -> SharedValue:
    kind = _CTYPES.get(typecode_or_type, typecode_or_type)
    if isinstance(size_or_init, int):
        return SharedValue((kind * size_or_init)(), lock)
    values = list(size_or_init)
    return SharedValue((kind * len(values))(*values), lock)
