"""``send`` and ``recv`` of ``torch.distributed``."""

from __future__ import annotations

from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.distributed import distributed_c10d

from squall.real.future import Future
from squall.real.runtime import current_task
from squall.sim.scripts.compat.groups import Group, resolve
from squall.sim.scripts.compat.work import Work, copy, in_background, member_meant
from squall.sim.scripts.moved import put
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.stack_reading import Reading, Thread, reads


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work:
    own = resolve(group)
    to = member_meant(group, dst, group_dst)
    if to == own.rank():
        raise ValueError(f"Invalid destination rank: member {to} of the group is the sender itself")
    value, runtime = copy(tensor), current_task().runtime
    own.check_there(to)
    if not isinstance(runtime, SimRuntime) or not runtime.preemptive:
        _post(own, to, tag, value)
        sent: Future[Any] = Future(what="a send")
        sent.mark_completed(None)
        return Work(sent, until_waited=True)
    late = partial(post_late, own, to, tag, tensor, tensor._version, own.sending.get(to))
    work = in_background(late, until_waited=True)
    own.sending[to] = work._future
    return work


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    isend(tensor, dst, group, tag, group_dst).wait()


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work:
    return in_background(lambda: recv(tensor, src, group, tag, group_src), until_waited=True)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive into ``tensor``; the global rank of the sender. ``src`` None: from anybody."""
    own = resolve(group)
    source = None if src is None and group_src is None else member_meant(group, src, group_src)
    sender, value = _collect(own, source, tag)
    with torch.no_grad():
        put([tensor], [value])
    return own.ranks[sender]


def _post(own: Group, to: int, tag: int, value: Any) -> None:
    own.check_there(to)
    with own.operation("send", tag, own.messages.post(own.rank(), to, tag, value)):
        pass


def post_late(
    own: Group, to: int, tag: int, tensor: Tensor, version: int, before: Future[Any] | None
) -> None:
    """Send what is in memory now, as long after ``isend`` as a busy processor lets it be, and after the message
    ``before``. ``version``: that of the tensor at ``isend``, for whoever looks whether it was changed since."""
    if before is not None:
        before.wait()
    _post(own, to, tag, copy(tensor))


def _collect(own: Group, source: int | None, tag: int) -> tuple[int, Any]:
    me = own.rank()
    if source is not None:
        own.taken[source, tag] = own.taken.get((source, tag), 0) + 1
        return source, _fetch(own, source, tag)
    while True:
        place = own.seen[tag] = own.seen.get(tag, 0) + 1
        sender = own.store.get(f"{me}/arrived/{tag}/{place}", own.timeout_s)
        if own.taken.get((sender, tag), 0) == 0:
            return sender, _fetch(own, sender, tag)
        own.taken[sender, tag] -= 1


@reads(__name__, "_collect")
def _from_anybody(thread: Thread, frame: FrameType) -> Reading | None:
    """A member waits for a message of whoever sends one."""
    if frame.f_locals["source"] is not None:
        return None
    what = f"a message of any rank with tag {frame.f_locals['tag']}"
    return Reading("collective", what, "nobody sends one")


def _fetch(own: Group, source: int, tag: int) -> Any:
    number = own.received[source, tag] = own.received.get((source, tag), 0) + 1
    key = f"{own.rank()}/sent/{source}/{tag}/{number}"
    with own.operation("recv", tag, 0):
        value = own.from_member(source, key)
    own.store.delete(key)
    return value


class P2POp:
    """A send or receive of a batch: ``torch.distributed.P2POp``.

    Raises ValueError unless ``op`` is ``isend`` or ``irecv``, and TypeError unless ``tensor`` is one.
    """

    def __init__(
        self,
        op: Any,
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "Invalid function argument. Expected parameter `tensor` of type torch.Tensor"
                f" but got {type(tensor)} instead."
            )
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = resolve(group)
        self.group_peer = member_meant(group, peer, group_peer)
        self.peer = self.group.ranks[self.group_peer]

    def __repr__(self) -> str:
        own = self.group.rank()
        source, to = (own, self.group_peer) if self.op is isend else (self.group_peer, own)
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={source}, group_dst={to},  "
            f"{self.tensor.shape}, {self.tensor.dtype})"
        )


#: of modules of torch that all processes share, which make their own
_OPS = (P2POp, distributed_c10d.P2POp)


def _begun(op: Any) -> Work:
    if op.op.__name__ == "isend":
        return isend(op.tensor, group=op.group, tag=op.tag, group_dst=op.group_peer)
    return irecv(op.tensor, group=op.group, tag=op.tag, group_src=op.group_peer)


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin all of them. Raises ValueError unless they are a list of P2POp, all of one group."""
    are_ops = isinstance(p2p_op_list, list) and all(isinstance(op, _OPS) for op in p2p_op_list)
    if not are_ops:
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    if any(op.group != p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    return [_begun(op) for op in p2p_op_list]


NAMES: dict[str, Any] = {
    each.__name__: each for each in (P2POp, batch_isend_irecv, irecv, isend, recv, send)
}
