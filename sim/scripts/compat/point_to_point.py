"""``send`` and ``recv`` of ``torch.distributed``."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch.distributed import distributed_c10d

from squall.real.future import Future
from squall.real.runtime import current_task
from squall.sim.scripts.compat.groups import Begun, GroupHandle, resolve
from squall.sim.scripts.compat.rebound import known, member_meant, rebound
from squall.sim.scripts.compat.work import Message, Work, in_background
from squall.sim.world.pieces import POINT_TO_POINT
from squall.sim.world.scheduler import SimRuntime


def _send(own: GroupHandle, tensors: list[Tensor], to: int, tag: int) -> Work:
    if to == own.rank():
        raise ValueError(f"Invalid destination rank: member {to} of the group is the sender itself")
    runtime = current_task().runtime
    may_be_late = isinstance(runtime, SimRuntime) and runtime.preemptive
    if not may_be_late or own.all.backend.has_streams:
        return _work(_post(own, to, tag, tensors), tensors)
    before, posted = own.sending.get(to), Future[Begun](what="a send")
    own.sending[to] = posted
    (tensor,) = tensors
    version = tensor._version

    def end() -> list[Tensor]:
        post_late(own, to, tag, tensor, version, before, posted).end()
        return tensors

    return in_background(end, Message(lambda limit_s: posted.wait().limit(limit_s)))


def _recv(own: GroupHandle, tensors: list[Tensor], source: int, tag: int) -> Work:
    return _work(_receive(own, tensors, source, tag, math.inf), tensors)


def _recv_anysource(own: GroupHandle, tensors: list[Tensor], tag: int) -> Work:
    return _recv(own, tensors, -1, tag)


for _name, _function in (("send", _send), ("recv", _recv), ("recv_anysource", _recv_anysource)):
    setattr(GroupHandle, _name, _function)


def _work(begun: Begun, tensors: list[Tensor]) -> Work:
    def end() -> list[Tensor]:
        begun.end()
        return tensors

    return in_background(end, Message(begun.limit))


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive into ``tensor``, as part of what the running task does; the global rank of the sender. ``src`` None:
    from anybody."""
    own = resolve(group)
    source = -1 if src is None and group_src is None else member_meant(group, src, group_src)
    (sender,) = _receive(own, [tensor], source, tag).end()
    return own.ranks[sender]


def _receive(
    own: GroupHandle, tensors: list[Tensor], source: int, tag: int, timeout_s: float | None = None
) -> Begun:
    """``source``: -1 is anybody."""
    operation = own.operations.recv(tensors, source, tag)
    return own.begin(operation, (POINT_TO_POINT, tag), timeout_s)


def _post(own: GroupHandle, to: int, tag: int, tensors: list[Tensor]) -> Begun:
    operation = own.operations.send(tensors, to, tag)
    return own.begin(operation, (POINT_TO_POINT, tag), math.inf)


def post_late(
    own: GroupHandle,
    to: int,
    tag: int,
    tensor: Tensor,
    version: int,
    before: Future[Begun] | None,
    posted: Future[Begun],
) -> Begun:
    """Send what is in memory now, as long after ``isend`` as a busy processor lets it be, and after the message
    ``before``, as the next one after ``posted``. ``version``: that of the tensor at ``isend``, for whoever looks whether it
    was changed since."""
    if before is not None:
        before.wait()
    begun = _post(own, to, tag, [tensor])
    posted.mark_completed(begun)
    return begun


class P2POp(distributed_c10d.P2POp):
    """Modules of torch that all processes share make its base."""


for _name in ("__init__", "__new__", "__repr__"):
    setattr(P2POp, _name, rebound(vars(distributed_c10d.P2POp)[_name]))

NAMES: dict[str, Any] = {"P2POp": P2POp, "recv": recv}
known.update(NAMES)
