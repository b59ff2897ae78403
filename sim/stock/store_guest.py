"""Inside a process of a script on the engine ``torch``: TCPStore and FileStore, whose keys and values
are the coordinator's."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any, Self

import torch.distributed

from squall.real.native.here import Here
from squall.sim.scripts.ranks import agent_keeps_store
from squall.sim.stock import script_rounds
from squall.sim.world.places import called_from

#: PyTorch's, of which the stubs know little
_Store: Any = vars(torch.distributed)["Store"]
_PrefixStore: Any = vars(torch.distributed)["PrefixStore"]
DEFAULT_TIMEOUT = timedelta(seconds=300)
#: compiled code may hold one longer than the script does, and calls what is defined here
_made: list[Any] = []


@cache
def _names_of_this_machine() -> frozenset[str]:
    own = ("localhost", "127.0.0.1", "::1", "0.0.0.0", socket.gethostname(), socket.getfqdn())
    return frozenset(own)


def _bytes(value: str | bytes) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError(f"a store has text or bytes, not {type(value).__name__}")
    return value if isinstance(value, bytes) else value.encode()


class SharedStore(_Store):  # type: ignore[misc]
    """The keys and values that the coordinator has under ``name``."""

    def __init__(self, name: str, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        super().__init__()
        self._name = name
        self.set_timeout(timeout)
        _made.append(self)

    def _ask(self, word: str, *rest: Any) -> Any:
        asked = called_from(sys._getframe(), __file__)
        answer = Here.process().ask(f"store {word}", self._name, asked, *rest)
        if script_rounds.counter is not None:
            script_rounds.counter.asked()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """Blocks until the key is there. Raises DistStoreError after the store's timeout."""
        found: bytes = self._ask("wait", [key], True, self.timeout.total_seconds())
        return found

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Blocks until all keys are there. Raises DistStoreError."""
        limit = self.timeout if timeout is None else timeout
        self._ask("wait", list(keys), False, limit.total_seconds())

    def add(self, key: str, amount: int) -> int:
        total: int = self._ask("add", key, amount)
        return total

    def append(self, key: str, value: str | bytes) -> None:
        self._ask("append", key, _bytes(value))

    def check(self, keys: Sequence[str]) -> bool:
        there: bool = self._ask("check", list(keys))
        return there

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        found: bytes = self._ask("compare", key, _bytes(expected), _bytes(desired))
        return found

    def delete_key(self, key: str) -> bool:
        there: bool = self._ask("delete", key)
        return there

    def list_keys(self) -> list[str]:
        keys: list[str] = self._ask("keys")
        return keys

    def num_keys(self) -> int:
        return len(self.list_keys())

    # What compiled code calls, as PrefixStore in front of this one.
    deleteKey = delete_key  # noqa: N815

    def getNumKeys(self) -> int:  # noqa: N802
        return self.num_keys()

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._ask("push", key, _bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Raises QueueEmptyError if there is nothing, DistStoreError after the store's timeout."""
        value: bytes = self._ask("pop", key, self.timeout.total_seconds() if block else 0.0)
        return value

    def queue_len(self, key: str) -> int:
        length: int = self._ask("length", key)
        return length

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return True

    def clone(self) -> Self:
        """Another handle of the same store."""
        made: Self = self._another()
        made.set_timeout(self.timeout)
        return made

    def _another(self) -> Any:
        return SharedStore(self._name)


def meet(rank: int, world_size: int) -> None:
    """This process is about to wait for others, which are started if nobody has."""
    if world_size > 1:
        Here.process().ask("meet", rank, world_size, "RANK" in os.environ)


class TCPStore(SharedStore):
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
        if port == 0:
            port = Here.process().ask("store port")
        where = "" if host_name in _names_of_this_machine() else host_name
        super().__init__(f"TCPStore {where}:{port}", timeout)
        self.host = host_name
        self.port = port
        if is_master:
            self.set("\0master", b"1")
        elif agent_keeps_store(os.environ, host_name, port):
            meet(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        else:
            self.wait(["\0master"])
        if wait_for_workers and world_size:
            meet(int(os.environ.get("RANK", 0)), world_size)
            if self.add("\0workers", 1) == world_size:
                self.set("\0complete", b"1")
            self.wait(["\0complete"])

    def list_keys(self) -> list[str]:
        return [key for key in super().list_keys() if not key.startswith("\0")]

    def num_keys(self) -> int:
        # The store itself counts in one key those who come.
        return super().num_keys() + self.check(["\0workers"])

    @property
    def libuvBackend(self) -> bool:  # noqa: N802 - torch's name
        return True

    def _another(self) -> TCPStore:
        made = TCPStore.__new__(TCPStore)
        SharedStore.__init__(made, self._name)
        made.host, made.port = self.host, self.port
        return made


class FileStore(SharedStore):
    """The store behind a file name."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__(f"FileStore {file_name}")
        self.path = file_name
        self._size = world_size

    def _ask(self, word: str, *rest: Any) -> Any:
        if word in ("push", "pop", "length"):
            raise NotImplementedError("queue support is not implemented.")
        return super()._ask(word, *rest)

    def has_extended_api(self) -> bool:
        return False

    def _another(self) -> FileStore:
        return FileStore(self.path, self._size)


class PrefixStore(SharedStore):
    """A store whose keys are another one's that begin with ``prefix``."""

    def __new__(cls, prefix: str, store: Any) -> Any:
        # Stores that this process has for itself are PyTorch's own.
        return (
            super().__new__(cls) if isinstance(store, SharedStore) else _PrefixStore(prefix, store)
        )

    def __init__(self, prefix: str, store: SharedStore) -> None:
        super().__init__(store._name, store.timeout)
        self.underlying_store = store
        self._prefix = f"{prefix}/"

    def num_keys(self) -> int:
        """Those of the store underneath, whatever their prefix."""
        count: int = self.underlying_store.num_keys()
        return count

    def has_extended_api(self) -> bool:
        extended: bool = self.underlying_store.has_extended_api()
        return extended

    def _another(self) -> Any:
        return PrefixStore(self._prefix[:-1], self.underlying_store.clone())

    @property
    def _underlying_non_prefix_store(self) -> Any:
        below = self.underlying_store
        return below._underlying_non_prefix_store if isinstance(below, PrefixStore) else below

    def _ask(self, word: str, *rest: Any) -> Any:
        if rest:
            key, *more = rest
            keys = (
                [self._prefix + each for each in key]
                if isinstance(key, list)
                else self._prefix + key
            )
            rest = (keys, *more)
        found = self.underlying_store._ask(word, *rest)
        if word == "keys":
            return [key.removeprefix(self._prefix) for key in found if key.startswith(self._prefix)]
        return found
