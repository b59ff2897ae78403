"""The name and id of a worker (torch/csrc/distributed/rpc/rpc_agent.h: WorkerInfo)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from squall.real.ids import MAX_WORKER_ID
from squall.real.rpc.wire_names import label_module

label_module(__name__, "workers")

MAX_NAME_LENGTH = 128
_NAME = re.compile(r"[A-Za-z0-9\-_:]+\Z")


class _WorkerInfo(NamedTuple):
    name: str
    id: int


class WorkerInfo(_WorkerInfo):
    """Raises RuntimeError for a name that cannot be a worker's, TypeError for such an id."""

    __slots__ = ()

    def __new__(cls, name: str, id: int) -> WorkerInfo:
        if not _NAME.match(name) or len(name) >= MAX_NAME_LENGTH:
            raise RuntimeError(
                "Worker name must match ^[A-Za-z0-9-_:]*$, and must be non-empty and shorter than "
                f"{MAX_NAME_LENGTH} chars, but got {name}"
            )
        if not -MAX_WORKER_ID - 1 <= id <= MAX_WORKER_ID:
            raise TypeError(f"the id of a worker is a 16-bit integer, not {id}")
        return super().__new__(cls, name, id)

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


def check_worker_info(name: str, id: int) -> WorkerInfo:
    """A worker of this name and id. Raises RuntimeError with torch's text if there can be none."""
    if not 0 <= id <= MAX_WORKER_ID:
        raise RuntimeError(f"RPC worker id {id} out of bound of int16_t.")
    return WorkerInfo(name, id)


class Membership:
    """The workers of a group, in the shapes they are asked for in.

    All agents of a group share one: a thousand workers need not keep a thousand names each.
    """

    def __init__(self, infos: Iterable[WorkerInfo]) -> None:
        self.infos = tuple(sorted(infos, key=lambda info: info.id))
        self.by_id = {info.id: info for info in self.infos}
        self.by_name = {info.name: info for info in self.infos}
        #: all names, sorted
        self.names = tuple(sorted(self.by_name))

    def __len__(self) -> int:
        return len(self.infos)
