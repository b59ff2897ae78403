"""``torch.distributed.TCPStore`` and its kin, over the store that the simulated workers meet at."""

from __future__ import annotations

import copy
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from types import FrameType
from typing import Any, Self
from urllib.parse import parse_qsl, urlparse

import torch.distributed as real_distributed
from torch.distributed import DistStoreError

from squall.model.events.names import code
from squall.real.rpc.rendezvous import store_key
from squall.real.rpc.store import Store as SharedStore
from squall.real.rpc.store import StoreTimeoutError
from squall.real.worker import current_worker
from squall.sim.scripts.compat.process import meeting
from squall.sim.scripts.ranks import agent_keeps_store
from squall.sim.world.places import called_from
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.stack_reading import Reading, Thread, reads
from squall.sim.world.watch import How, KeyUsed, current

DEFAULT_TIMEOUT = timedelta(seconds=300)


class _Queue(deque[bytes]):
    """The value of a key that is a queue, which is no key for those who count or list them."""


class Store:
    """What ``torch.distributed.Store`` offers: text or bytes in, bytes out."""

    def __init__(
        self, shared: SharedStore, timeout: timedelta = DEFAULT_TIMEOUT, name: str = ""
    ) -> None:
        #: the keys and values, common to all processes
        self.shared = shared
        self._timeout = timeout
        self._name = name

    @property
    def timeout(self) -> timedelta:
        return self._timeout

    def set(self, key: str, value: str | bytes) -> None:
        self.shared.set(key, _bytes(value))
        self._used(key, "write")
        self._note(key)
        self._answered()

    def get(self, key: str) -> bytes:
        """Blocks until the key is there. Raises DistStoreError after :attr:`timeout`."""
        self._wait([key], self.timeout)
        value = self.shared.get(key)
        self._used(key, "read")
        self._answered()
        return b"" if isinstance(value, _Queue) else _bytes(value)

    def add(self, key: str, amount: int) -> int:
        self._note(key)
        total = self.shared.add(key, amount)
        self._used(key, "add" if amount else "read")
        self._answered()
        return total

    def append(self, key: str, value: str | bytes) -> None:
        self.set(key, _bytes(self.shared.peek(key, b"")) + _bytes(value))

    def check(self, keys: list[str]) -> bool:
        found = self.shared.check(list(keys))
        for key in keys:
            self._used(key, "look")
        self._answered()
        return found

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        value = self.shared.peek(key)
        there = b"" if value is None else _bytes(value)
        if there != _bytes(expected_value):
            self._used(key, "read")
            return _bytes(expected_value) if value is None else there
        self.set(key, desired_value)
        return _bytes(desired_value)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Blocks until all keys are there. Raises DistStoreError."""
        self._wait(keys, self.timeout if timeout is None else timeout)
        for key in keys:
            self._used(key, "look")

    def _wait(self, keys: Sequence[str], limit: timedelta) -> None:
        try:
            self.shared.wait(list(keys), limit.total_seconds())
        except StoreTimeoutError as error:
            raise DistStoreError(str(error)) from None

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Blocks until so many have come; a key serves once. Raises DistStoreError."""
        if self.add(f"{key}/num_members", 1) == world_size:
            self.set(f"{key}/last_member", "1")
        self.wait([f"{key}/last_member"], timeout)

    def queue_push(self, key: str, value: str | bytes) -> None:
        queue = self._queue(key)
        queue.append(_bytes(value))
        self.shared.set(key, queue)  # wakes those who wait
        self._used(key, "write")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """The oldest value. Raises QueueEmptyError, or DistStoreError after :attr:`timeout`."""
        now = current_worker().runtime.now
        deadline = now() + self.timeout.total_seconds()
        while not (queue := self._queue(key)):
            if not block:
                self._used(key, "read")
                raise _REAL.QueueEmptyError("queue is empty")
            self._wait([key], timedelta(seconds=deadline - now()))
        value = queue.popleft()
        self._used(key, "write")
        if not queue:
            self.shared.delete(key)
        return value

    def queue_len(self, key: str) -> int:
        self._used(key, "read")
        return len(self._queue(key))

    def _queue(self, key: str) -> _Queue:
        found = self.shared.peek(key)
        return found if isinstance(found, _Queue) else _Queue()

    def clone(self) -> Self:
        """Another handle of the same store."""
        return copy.copy(self)

    def delete_key(self, key: str) -> bool:
        self._forget(key)
        is_there = self.shared.delete(key)
        self._used(key, "delete" if is_there else "look")
        return is_there

    def num_keys(self) -> int:
        return len(self._keys())

    def list_keys(self) -> list[str]:
        return list(self._keys())

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def has_extended_api(self) -> bool:
        return True

    def _used(self, key: str, how: How) -> None:
        """That was done just now, for whoever watches."""
        watcher = current()
        if watcher is not None:
            method, place = called_from(sys._getframe(), __file__)
            if place.file:
                watcher.stored(KeyUsed(self._name, key, how, method, place))

    def _answered(self) -> None:
        """An operation is over, and what comes of it is known."""
        runtime = current_worker().runtime
        if isinstance(runtime, SimRuntime):
            runtime.seen_by_others()

    def _keys(self) -> dict[str, None]:
        keys: dict[str, None] = self.shared.peek("\0keys") or {}
        return keys

    def _note(self, key: str) -> None:
        keys = self._keys()
        if not keys:
            self.shared.set("\0keys", keys)
        keys[key] = None

    def _forget(self, key: str) -> None:
        self._keys().pop(key, None)


class TCPStore(Store):
    """The store at ``host_name:port``; port 0 makes a new one."""

    def __init__(
        self,
        host_name: str,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        **_: Any,
    ) -> None:
        worker = current_worker()
        if port == 0:
            port = 20000 + worker.world.store("free ports").add("next", 1)
        name = f"TCPStore {host_name}:{port}"
        super().__init__(worker.world.store(name), timeout, name)
        self._host = host_name
        self._port = port
        if is_master:
            self.shared.set("\0master", True)
        elif agent_keeps_store(os.environ, host_name, port):
            meeting(-1, int(os.environ["WORLD_SIZE"]))
        elif not self.shared.check(["\0master"]):
            self.wait(["\0master"])
        if wait_for_workers and world_size:
            meeting(-1, world_size)
            try:
                self.shared.barrier("\0workers", world_size, timeout.total_seconds())
            except StoreTimeoutError as error:
                raise DistStoreError(str(error)) from None

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        return self._port

    @property
    def libuvBackend(self) -> bool:  # noqa: N802 - torch's name
        return True

    def num_keys(self) -> int:
        # The store itself counts in one key those who come.
        return super().num_keys() + self.shared.check(["\0workers/arrived"])

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Blocks until so many have come, then serves anew. Raises DistStoreError."""
        count = self.add(key, 1)
        opened = f"\0barrier {key}/{(count - 1) // world_size}"
        if count % world_size == 0:
            self.shared.set(opened, True)
        self.wait([opened], timeout)


class FileStore(Store):
    """The store behind a file name."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        name = f"FileStore {file_name}"
        super().__init__(current_worker().world.store(name), name=name)
        self._path = file_name

    @property
    def path(self) -> str:
        return self._path

    def has_extended_api(self) -> bool:
        return False

    def queue_push(self, key: str, value: str | bytes) -> None:
        raise NotImplementedError("a FileStore has no queues")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        raise NotImplementedError("a FileStore has no queues")

    def queue_len(self, key: str) -> int:
        raise NotImplementedError("a FileStore has no queues")


class HashStore(Store):
    """A store of this process alone."""

    def __init__(self) -> None:
        super().__init__(SharedStore(current_worker().runtime))

    def _used(self, key: str, how: How) -> None:
        pass


class PrefixStore(Store):
    """Another store's keys under a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(store.shared.prefixed(prefix))
        self._underlying = store
        self._prefix = f"{prefix}/"

    @property
    def underlying_store(self) -> Store:
        return self._underlying

    @property
    def timeout(self) -> timedelta:
        return self._underlying.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._underlying.set_timeout(timeout)

    def has_extended_api(self) -> bool:
        return self._underlying.has_extended_api()

    def clone(self) -> Self:
        made = super().clone()
        made._underlying = self._underlying.clone()
        return made

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        self._underlying.barrier(self._prefix + key, world_size, timeout)

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._underlying.queue_push(self._prefix + key, value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._underlying.queue_pop(self._prefix + key, block)

    def queue_len(self, key: str) -> int:
        return self._underlying.queue_len(self._prefix + key)

    def num_keys(self) -> int:
        """Those of the store underneath, whatever their prefix."""
        return self._underlying.num_keys()

    def list_keys(self) -> list[str]:
        found = self._underlying.list_keys()
        return [key.removeprefix(self._prefix) for key in found if key.startswith(self._prefix)]

    def _used(self, key: str, how: How) -> None:
        self._underlying._used(self._prefix + key, how)

    def _note(self, key: str) -> None:
        self._underlying._note(self._prefix + key)

    def _forget(self, key: str) -> None:
        self._underlying._forget(self._prefix + key)


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, **_: Any
) -> Iterator[tuple[Store, int, int]]:
    """``torch.distributed.rendezvous``: the store that ``url`` names, the rank and world size.

    Raises RuntimeError or ValueError for a URL that says too little.
    """
    world = current_worker().world
    key = store_key(url, rank, world_size, world.schemes)
    asked = dict(parse_qsl(urlparse(url).query))
    if rank == -1:
        rank = int(asked.get("rank", os.environ.get("RANK", -1)))
    if world_size == -1:
        world_size = int(asked.get("world_size", os.environ.get("WORLD_SIZE", -1)))
    shared = world.store(f"{key}/rendezvous")
    while True:
        yield Store(shared, name=key), rank, world_size


@reads(__name__, "Store._wait")
def _waits(thread: Thread, frame: FrameType) -> Reading:
    store, keys = frame.f_locals["self"], frame.f_locals["keys"]
    missing = [key for key in keys if not store.shared.check([key])]
    what = f"key {code(missing[0])} of {thread.named()}" if missing else f"keys of {thread.named()}"
    return Reading("key", what, "nobody sets it")


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


_REAL: Any = real_distributed
#: what stores of some versions of torch lack
_NEW = ("barrier", "clone", "list_keys", "queue_len", "queue_pop", "queue_push")
for _kind in (FileStore, HashStore, PrefixStore, Store, TCPStore):
    for _name in _NEW:
        if _name in vars(_kind) and not hasattr(_REAL.Store, _name):
            delattr(_kind, _name)

NAMES: dict[str, Any] = {
    "FileStore": FileStore,
    "HashStore": HashStore,
    "PrefixStore": PrefixStore,
    "Store": Store,
    "TCPStore": TCPStore,
    "rendezvous": rendezvous,
}
