"""``torch.distributed.TCPStore`` and its kin, over the store that the simulated workers meet at."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlparse

from torch.distributed import DistStoreError

from squall.real.rpc.rendezvous import store_key
from squall.real.rpc.store import Store as SharedStore
from squall.real.rpc.store import StoreTimeoutError
from squall.real.worker import current_worker

DEFAULT_TIMEOUT = timedelta(seconds=300)


class Store:
    """What ``torch.distributed.Store`` offers: text or bytes in, bytes out."""

    def __init__(self, shared: SharedStore, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        #: the keys and values, common to all processes
        self.shared = shared
        self.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        self.shared.set(key, _bytes(value))
        self._note(key)

    def get(self, key: str) -> bytes:
        """Blocks until the key is there. Raises DistStoreError after :attr:`timeout`."""
        self.wait([key])
        return _bytes(self.shared.get(key))

    def add(self, key: str, amount: int) -> int:
        self._note(key)
        return self.shared.add(key, amount)

    def append(self, key: str, value: str | bytes) -> None:
        self.set(key, _bytes(self.shared.peek(key, b"")) + _bytes(value))

    def check(self, keys: list[str]) -> bool:
        return self.shared.check(list(keys))

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        current = self.shared.peek(key)
        if current is None:
            if expected_value:
                return _bytes(expected_value)
        elif _bytes(current) != _bytes(expected_value):
            return _bytes(current)
        self.set(key, desired_value)
        return _bytes(desired_value)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Blocks until all keys are there. Raises DistStoreError."""
        limit = self.timeout if timeout is None else timeout
        try:
            self.shared.wait(list(keys), limit.total_seconds())
        except StoreTimeoutError as error:
            raise DistStoreError(str(error)) from None

    def delete_key(self, key: str) -> bool:
        self._keys().pop(key, None)
        return self.shared.delete(key)

    def num_keys(self) -> int:
        return len(self._keys())

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def set_timeout(self, timeout: timedelta) -> None:
        self.timeout = timeout

    def has_extended_api(self) -> bool:
        return True

    def _keys(self) -> dict[str, None]:
        keys: dict[str, None] = self.shared.peek("\0keys") or {}
        return keys

    def _note(self, key: str) -> None:
        keys = self._keys()
        if not keys:
            self.shared.set("\0keys", keys)
        keys[key] = None


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
        super().__init__(worker.world.store(f"TCPStore {host_name}:{port}"), timeout)
        self.host = host_name
        self.port = port
        if is_master:
            self.shared.set("\0master", True)
        elif not self.shared.check(["\0master"]):
            self.wait(["\0master"])
        if wait_for_workers and world_size:
            try:
                self.shared.barrier("\0workers", world_size, timeout.total_seconds())
            except StoreTimeoutError as error:
                raise DistStoreError(str(error)) from None


class FileStore(Store):
    """The store behind a file name."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__(current_worker().world.store(f"FileStore {file_name}"))
        self.path = file_name


class HashStore(Store):
    """A store of this process alone."""

    def __init__(self) -> None:
        super().__init__(SharedStore(current_worker().runtime))


class PrefixStore(Store):
    """Another store's keys under a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(store.shared.prefixed(prefix), store.timeout)
        self.underlying_store = store
        self.prefix = prefix


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
        yield Store(shared), rank, world_size


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


NAMES: dict[str, Any] = {
    "FileStore": FileStore,
    "HashStore": HashStore,
    "PrefixStore": PrefixStore,
    "Store": Store,
    "TCPStore": TCPStore,
    "rendezvous": rendezvous,
}
