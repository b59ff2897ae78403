"""The name and id of a worker (torch/csrc/distributed/rpc/rpc_agent.h: WorkerInfo)."""

from __future__ import annotations

import re
from typing import NamedTuple

from real.ids import MAX_WORKER_ID

MAX_NAME_LENGTH = 128
_NAME = re.compile(r"[A-Za-z0-9\-_:]+\Z")


class WorkerInfo(NamedTuple):
    name: str
    id: int

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


def check_worker_info(name: str, id: int) -> None:
    """Raises RuntimeError with torch's text if the name or the id cannot be a worker's."""
    if not _NAME.match(name) or len(name) >= MAX_NAME_LENGTH:
        raise RuntimeError(
            "Worker name must match ^[A-Za-z0-9-_:]*$, and must be non-empty and shorter than "
            f"{MAX_NAME_LENGTH} chars, but got {name}"
        )
    if not 0 <= id <= MAX_WORKER_ID:
        raise RuntimeError(f"RPC worker id {id} out of bound of int16_t.")
