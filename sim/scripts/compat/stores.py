"""``torch.distributed.TCPStore`` and its kin on the engine port."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlparse

from squall.real.rpc.rendezvous import store_key
from squall.real.worker import current_worker
from squall.sim.scripts.compat.children import coordinator
from squall.sim.scripts.compat.process import current_process, meeting
from squall.sim.scripts.store_handles import (
    DEFAULT_TIMEOUT,
    FileHandle,
    PrefixHandle,
    StoreHandle,
    TcpHandle,
)
from squall.sim.world.scheduler import SimRuntime


class Store(StoreHandle):
    """The keys and values that the coordinator has under a name."""

    def _begin(self, name: str, timeout: timedelta) -> None:
        self._name = name
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def _touch(self) -> None:
        """Others have it, too: that orders of their operations differ is what who explores a step has to know."""
        current_worker().world.store("stores")

    def _put(self, word: str, *rest: Any) -> Any:
        self._touch()
        answer = coordinator(current_process().group).ask_here(word, *rest)
        runtime = current_worker().runtime
        if isinstance(runtime, SimRuntime) and word != "store wait":
            runtime.seen_by_others()
        return answer

    def _meet(self, world_size: int) -> None:
        meeting(-1, world_size)


class TCPStore(TcpHandle, Store):
    __doc__ = TcpHandle.__doc__


class FileStore(FileHandle, Store):
    __doc__ = FileHandle.__doc__


class PrefixStore(PrefixHandle, Store):
    __doc__ = PrefixHandle.__doc__

    @property
    def timeout(self) -> timedelta:
        found: timedelta = self._underlying.timeout
        return found

    def set_timeout(self, timeout: timedelta) -> None:
        self._underlying.set_timeout(timeout)  # type: ignore[attr-defined]


class HashStore(Store):
    """A store of this process alone."""

    def __init__(self) -> None:
        super().__init__(f"HashStore {self._put('store port')}")

    def _touch(self) -> None:
        pass


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, **_: Any
) -> Iterator[tuple[Store, int, int]]:
    """``torch.distributed.rendezvous``: the store that ``url`` names, the rank and world size.

    Raises RuntimeError or ValueError for a URL that says too little.
    """
    key = store_key(url, rank, world_size, current_worker().world.schemes)
    asked = dict(parse_qsl(urlparse(url).query))
    if rank == -1:
        rank = int(asked.get("rank", os.environ.get("RANK", -1)))
    if world_size == -1:
        world_size = int(asked.get("world_size", os.environ.get("WORLD_SIZE", -1)))
    while True:
        yield Store(f"{key} rendezvous", DEFAULT_TIMEOUT), rank, world_size


NAMES: dict[str, Any] = {
    "FileStore": FileStore,
    "HashStore": HashStore,
    "PrefixStore": PrefixStore,
    "Store": Store,
    "TCPStore": TCPStore,
    "rendezvous": rendezvous,
}
