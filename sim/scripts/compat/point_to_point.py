"""``send`` and ``recv`` of ``torch.distributed``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.distributed import distributed_c10d

from squall.real.future import Future
from squall.real.runtime import current_task
from squall.sim.scripts.compat.group_messages import ARRIVED, NOTICED, SENT, key
from squall.sim.scripts.compat.groups import NEVER, Group, copied, resolve
from squall.sim.scripts.compat.rebound import known, member_meant, rebound
from squall.sim.scripts.compat.work import Message, Work, in_background
from squall.sim.scripts.moved import put
from squall.sim.world.pieces import POINT_TO_POINT
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.stack_reading import Reading, Thread, reads


def _send(own: Group, tensors: list[Tensor], to: int, tag: int) -> Work:
    (tensor,) = tensors
    if to == own.rank():
        raise ValueError(f"Invalid destination rank: member {to} of the group is the sender itself")
    own.check_there(to)
    own.sent[to, tag] += 1
    awaited = key(own.rank(), NOTICED, to, (POINT_TO_POINT, tag), own.sent[to, tag])
    runtime = current_task().runtime
    begun: AbstractContextManager[None] | None = None
    before, posted = own.sending.get(to), Future[Any](what="a send")
    version, is_late = tensor._version, isinstance(runtime, SimRuntime) and runtime.preemptive
    if is_late:
        own.sending[to] = posted
    else:
        begun = _post(own, to, tag, tensor)

    def end() -> list[Tensor]:
        """Its receiver has come, as gloo's sends wait for that."""
        with begun or post_late(own, to, tag, tensor, version, before, posted):
            own.take(to, awaited, NEVER)
        return tensors

    return in_background(end, Message(own.timeout_s, partial(own.late, "send")))


def _recv(own: Group, tensors: list[Tensor], source: int | None, tag: int) -> Work:
    def end() -> list[Tensor]:
        _receive(own, tensors[0], source, tag, NEVER)
        return tensors

    return in_background(end, Message(own.timeout_s, partial(own.late, "recv")))


def _recv_anysource(own: Group, tensors: list[Tensor], tag: int) -> Work:
    return _recv(own, tensors, None, tag)


for _name, _function in (("send", _send), ("recv", _recv), ("recv_anysource", _recv_anysource)):
    setattr(Group, _name, _function)


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
    source = None if src is None and group_src is None else member_meant(group, src, group_src)
    return _receive(own, tensor, source, tag)


def _receive(
    own: Group, tensor: Tensor, source: int | None, tag: int, timeout_s: float | None = None
) -> int:
    sender, sent = _collect(own, source, tag, timeout_s)
    with torch.no_grad():
        put([tensor], sent)
    return own.ranks[sender]


def _post(own: Group, to: int, tag: int, tensor: Tensor) -> AbstractContextManager[None]:
    own.check_there(to)
    sent = own.messages.send(own.rank(), to, (POINT_TO_POINT, tag), copied([tensor]))
    return own.operation("send", tag, sent)


def post_late(
    own: Group,
    to: int,
    tag: int,
    tensor: Tensor,
    version: int,
    before: Future[Any] | None,
    posted: Future[Any],
) -> AbstractContextManager[None]:
    """Send what is in memory now, as long after ``isend`` as a busy processor lets it be, and after the message
    ``before``, as the next one after ``posted``. ``version``: that of the tensor at ``isend``, for whoever looks whether it
    was changed since."""
    if before is not None:
        before.wait()
    try:
        return _post(own, to, tag, tensor)
    finally:
        posted.mark_completed(None)


def _collect(
    own: Group, source: int | None, tag: int, timeout_s: float | None
) -> tuple[int, list[Tensor]]:
    me = own.rank()
    if source is not None:
        own.taken[source, tag] = own.taken.get((source, tag), 0) + 1
        return source, _fetch(own, source, tag, timeout_s)
    while True:
        place = own.seen[tag] = own.seen.get(tag, 0) + 1
        arrived = key(me, ARRIVED, -1, (POINT_TO_POINT, tag), place)
        sender = own.awaited(arrived, timeout_s)
        if own.taken.get((sender, tag), 0) == 0:
            return sender, _fetch(own, sender, tag, timeout_s)
        own.taken[sender, tag] -= 1


@reads(__name__, "_collect")
def _from_anybody(thread: Thread, frame: FrameType) -> Reading | None:
    """A member waits for a message of whoever sends one."""
    if frame.f_locals["source"] is not None:
        return None
    what = f"a message of any rank with tag {frame.f_locals['tag']}"
    return Reading("collective", what, "nobody sends one")


def _fetch(own: Group, source: int, tag: int, timeout_s: float | None) -> Any:
    number = own.received[source, tag] = own.received.get((source, tag), 0) + 1
    awaited = key(own.rank(), SENT, source, (POINT_TO_POINT, tag), number)
    with own.operation("recv", tag, 0):
        own.messages.notice(own.rank(), source, (POINT_TO_POINT, tag))
        return own.take(source, awaited, timeout_s)


class P2POp(distributed_c10d.P2POp):
    """Modules of torch that all processes share make its base."""


for _name in ("__init__", "__new__", "__repr__"):
    setattr(P2POp, _name, rebound(vars(distributed_c10d.P2POp)[_name]))

NAMES: dict[str, Any] = {"P2POp": P2POp, "recv": recv}
known.update(NAMES)
