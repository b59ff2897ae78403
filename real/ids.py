"""Identifiers (torch/csrc/distributed/rpc/types.h, autograd/context/container.h)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

WorkerId = int
ContextId = int
AutogradMessageId = int
#: names one backward pass of a context on all workers
PassId = int

#: the low bits of a context or message id count; the worker id stands above them
LOCAL_ID_BITS = 48
MAX_WORKER_ID = 32767
#: of these bits, what one process counts with: the next one of its rank begins above it
PROCESS_ID_BITS = 40


class GlobalUniqueId(NamedTuple):
    """Unique in the cluster: the worker that made it, and that worker's own count."""

    created_on: int
    local_id: int

    def __str__(self) -> str:
        return f"GloballyUniqueId(created_on={self.created_on}, local_id={self.local_id})"


RRefId = GlobalUniqueId
ForkId = GlobalUniqueId


class IdSource:
    """Counts up from ``worker_id << 48``: the ids of contexts, autograd messages or passes."""

    def __init__(self, worker_id: WorkerId, incarnation: int = 0) -> None:
        self.first = worker_id << LOCAL_ID_BITS
        #: no id is as large as this
        self.max_id = self.first | ((1 << LOCAL_ID_BITS) - 1)
        self._next = itertools.count(self.first + (incarnation << PROCESS_ID_BITS))

    def next(self) -> int:
        """Raises RuntimeError when the worker's 2**48 ids are used up."""
        new = next(self._next)  # atomic between threads
        if new >= self.max_id:
            raise RuntimeError("We have run out of autograd ids, this should not happen")
        return new


def maker_of(id: ContextId | AutogradMessageId | PassId) -> WorkerId:
    """The worker whose :class:`IdSource` gave an id."""
    return id >> LOCAL_ID_BITS


def is_before(one: PassId, other: PassId) -> bool:
    """Whether pass ``one`` is known to have begun before ``other`` did.

    Of two that began on two workers nobody knows.
    """
    return maker_of(one) == maker_of(other) and one < other
