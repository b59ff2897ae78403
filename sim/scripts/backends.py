"""How backends of process groups differ in who waits for whom.

gloo begins each operation at once, and a message is over when its receiver is there. NCCL puts operations on streams,
where one begins when the one before is over (pytorch/pytorch#132852, #160342); MPI sends small messages before anybody asks
for them. What they compute is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, NamedTuple

from squall.sim.names import BackendName
from squall.sim.world.places import frames_of

#: the variable of :func:`numbered` that has the number of a batch
_BATCH = "squall_batch"


class Backend(NamedTuple):
    """``has_streams``: of a member's operations in one group, collectives and batches of messages are done one after the
    other, and so are messages between two members that are in no batch; tags count for nothing, and nobody receives from
    any rank. ``eager_bytes``: messages up to that size are over as they are sent. ``timeout_s``: how long operations may
    take where a script does not say it, in seconds of virtual time."""

    name: BackendName
    has_streams: bool = False
    eager_bytes: int = -1
    timeout_s: float | None = None


GLOO = Backend("gloo")
BACKENDS: dict[BackendName, Backend] = {
    each.name: each
    for each in (
        GLOO,
        Backend("nccl", has_streams=True, timeout_s=600.0),
        # Open MPI's btl_tcp_eager_limit
        Backend("mpi", eager_bytes=65_536),
    )
}


def numbered(function: Callable[..., Any]) -> Callable[..., Any]:
    """``batch_isend_irecv``, so that :func:`batch_of` knows which call of it is under way."""
    numbers = itertools.count(1)

    @wraps(function)
    def batch_isend_irecv(*args: Any, **options: Any) -> Any:
        squall_batch = next(numbers)  # noqa: F841 - it is read in its frame
        return function(*args, **options)

    return batch_isend_irecv


def batch_of(frame: FrameType | None) -> int:
    """The number of the batch that an operation belongs to which is begun in ``frame``; 0: it is in none."""
    found = (
        each.f_locals[_BATCH] for each in frames_of(frame) if _BATCH in each.f_code.co_varnames
    )
    return next(found, 0)
