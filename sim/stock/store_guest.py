"""Inside a process of a script on the engine ``torch``: TCPStore and FileStore."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch.distributed

from squall.real.native.here import Here
from squall.sim.scripts.store_handles import FileHandle, PrefixHandle, StoreHandle, TcpHandle
from squall.sim.stock import script_rounds

#: PyTorch's, of which the stubs know little
_Store: Any = vars(torch.distributed)["Store"]
_PrefixStore: Any = vars(torch.distributed)["PrefixStore"]
#: compiled code may hold one longer than the script does, and calls what is defined here
_made: list[Any] = []


def meet(rank: int, world_size: int) -> None:
    """This process is about to wait for others, which are started if nobody has."""
    if world_size > 1:
        Here.process().ask("meet", rank, world_size, "RANK" in os.environ)


class SharedStore(StoreHandle, _Store):  # type: ignore[misc]
    """The keys and values that the coordinator has under ``name``."""

    def _begin(self, name: str, timeout: timedelta) -> None:
        _Store.__init__(self)
        _Store.set_timeout(self, timeout)
        self._name = name
        _made.append(self)

    def _put(self, word: str, *rest: Any) -> Any:
        answer = Here.process().ask(word, *rest)
        if script_rounds.counter is not None:
            script_rounds.counter.asked()
        return answer

    def _meet(self, world_size: int) -> None:
        meet(int(os.environ.get("RANK", 0)), world_size)

    # What compiled code calls, as PrefixStore in front of this one.

    def deleteKey(self, key: str) -> bool:  # noqa: N802
        return self.delete_key(key)

    def getNumKeys(self) -> int:  # noqa: N802
        return self.num_keys()


class TCPStore(TcpHandle, SharedStore):
    __doc__ = TcpHandle.__doc__


class FileStore(FileHandle, SharedStore):
    __doc__ = FileHandle.__doc__


class PrefixStore(PrefixHandle, SharedStore):
    __doc__ = PrefixHandle.__doc__

    def __new__(cls, prefix: str = "", store: Any = None) -> Any:
        # Stores that this process has for itself are PyTorch's own.
        own = store is None or isinstance(store, SharedStore)
        return super().__new__(cls) if own else _PrefixStore(prefix, store)
