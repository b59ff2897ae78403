"""``torch.distributed.TCPStore`` and its kin as a process of a script has them, on either engine: the keys and values
are the coordinator's (:mod:`squall.sim.scripts.stores`), whom an engine's own base class asks."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any, Self

import torch.distributed

from squall.sim.scripts.ranks import agent_keeps_store
from squall.sim.world.places import CodePlace, called_from

DEFAULT_TIMEOUT = timedelta(seconds=300)
_REAL: Any = torch.distributed


@cache
def _names_of_this_machine() -> frozenset[str]:
    own = ("localhost", "127.0.0.1", "::1", "0.0.0.0", socket.gethostname(), socket.getfqdn())
    return frozenset(own)


def _bytes(value: str | bytes) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError(f"a store has text or bytes, not {type(value).__name__}")
    return value if isinstance(value, bytes) else value.encode()


class StoreHandle:
    """What ``torch.distributed.Store`` offers: text or bytes in, bytes out. An engine says how the coordinator is
    asked (:meth:`_put`, :meth:`_meet`), and has :attr:`timeout` and ``set_timeout``."""

    timeout: Any
    _name: str

    def __init__(self, name: str = "", timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        self._begin(name, timeout)

    def _begin(self, name: str, timeout: timedelta) -> None:
        """Make it that of the keys and values under ``name``."""
        raise NotImplementedError

    def _put(self, word: str, *rest: Any) -> Any:
        """What the coordinator answers to a question."""
        raise NotImplementedError

    def _meet(self, world_size: int) -> None:
        """This process is about to wait for others, which are started if nobody has."""
        raise NotImplementedError

    @property
    def _place(self) -> str:
        """Which keys it has: handles with the same ones have the same."""
        return self._name

    def _ask(self, word: str, *rest: Any) -> Any:
        return self._ask_from(called_from(sys._getframe(), __file__), word, *rest)

    def _ask_from(self, asked: tuple[str, CodePlace], word: str, *rest: Any) -> Any:
        answer = self._put(f"store {word}", self._name, asked, *rest)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """Blocks until the key is there. Raises DistStoreError after the store's timeout."""
        found: bytes = self._ask("get", key, self.timeout.total_seconds())
        return found

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Blocks until all keys are there. Raises DistStoreError."""
        limit = self.timeout if timeout is None else timeout
        self._ask("wait", list(keys), limit.total_seconds())

    def add(self, key: str, amount: int) -> int:
        total: int = self._ask("add", key, amount)
        return total

    def append(self, key: str, value: str | bytes) -> None:
        self._ask("append", key, _bytes(value))

    def check(self, keys: Sequence[str]) -> bool:
        there: bool = self._ask("check", list(keys))
        return there

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        found: bytes = self._ask("compare", key, _bytes(expected_value), _bytes(desired_value))
        return found

    def delete_key(self, key: str) -> bool:
        there: bool = self._ask("delete", key)
        return there

    def list_keys(self) -> list[str]:
        # Those that begin so are of the store's own making.
        return [key for key in self._ask("keys") if not key.startswith("\0")]

    def num_keys(self) -> int:
        return len(self.list_keys())

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Blocks until so many have come; a key serves once. Raises DistStoreError."""
        if self.add(f"{key}/num_members", 1) == world_size:
            self.set(f"{key}/last_member", "1")
        self.wait([f"{key}/last_member"], timeout)

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
        made = type(self).__new__(type(self))
        made._begin(self._name, self.timeout)
        vars(made).update(vars(self))
        return made


class TcpHandle(StoreHandle):
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
            port = self._put("store port")
        where = "" if host_name in _names_of_this_machine() else host_name
        super().__init__(f"TCPStore {where}:{port}", timeout)
        self._host = host_name
        self._port = port
        if is_master:
            self.set("\0master", b"1")
        elif agent_keeps_store(os.environ, host_name, port):
            self._meet(int(os.environ["WORLD_SIZE"]))
        else:
            self.wait(["\0master"])
        if wait_for_workers and world_size:
            self._meet(world_size)
            if self.add("\0workers", 1) == world_size:
                self.set("\0complete", b"1")
            self.wait(["\0complete"])

    def num_keys(self) -> int:
        # The store itself counts in one key those who come.
        return super().num_keys() + self.check(["\0workers"])

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Blocks until so many have come, then serves anew. Raises DistStoreError."""
        count = self.add(key, 1)
        opened = f"\0barrier {key}/{(count - 1) // world_size}"
        if count % world_size == 0:
            self.set(opened, b"1")
        self.wait([opened], timeout)

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        return self._port

    @property
    def libuvBackend(self) -> bool:  # noqa: N802 - torch's name
        return True


class FileHandle(StoreHandle):
    """The store behind a file name."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__(f"FileStore {file_name}")
        self._path = file_name

    @property
    def path(self) -> str:
        return self._path

    def _ask_from(self, asked: tuple[str, CodePlace], word: str, *rest: Any) -> Any:
        if word in ("push", "pop", "length"):
            raise NotImplementedError("queue support is not implemented.")
        return super()._ask_from(asked, word, *rest)

    def has_extended_api(self) -> bool:
        return False


class PrefixHandle(StoreHandle):
    """A store whose keys are another one's that begin with ``prefix``."""

    def __init__(self, prefix: str, store: StoreHandle) -> None:
        self._underlying = store
        self._prefix = f"{prefix}/"
        super().__init__(store._name, store.timeout)

    @property
    def underlying_store(self) -> StoreHandle:
        return self._underlying

    @property
    def _place(self) -> str:
        return f"{self._underlying._place} {self._prefix}"

    @property
    def _underlying_non_prefix_store(self) -> StoreHandle:
        below = self._underlying
        return below._underlying_non_prefix_store if isinstance(below, PrefixHandle) else below

    def num_keys(self) -> int:
        """Those of the store underneath, whatever their prefix."""
        return self._underlying.num_keys()

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        self._underlying.barrier(self._prefix + key, world_size, timeout)

    def has_extended_api(self) -> bool:
        return self._underlying.has_extended_api()

    def clone(self) -> Self:
        made = super().clone()
        made._underlying = self._underlying.clone()
        return made

    def _ask_from(self, asked: tuple[str, CodePlace], word: str, *rest: Any) -> Any:
        if rest:
            key, *more = rest
            keys = (
                [self._prefix + each for each in key]
                if isinstance(key, list)
                else self._prefix + key
            )
            rest = (keys, *more)
        found = self._underlying._ask_from(asked, word, *rest)
        if word == "keys":
            return [key.removeprefix(self._prefix) for key in found if key.startswith(self._prefix)]
        return found


# What stores of some versions of torch lack.
for _kind in (StoreHandle, TcpHandle, FileHandle, PrefixHandle):
    for _name in ("barrier", "clone", "list_keys", "queue_len", "queue_pop", "queue_push"):
        if _name in vars(_kind) and not hasattr(_REAL.Store, _name):
            delattr(_kind, _name)
