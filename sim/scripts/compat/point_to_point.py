"""``send`` and ``recv`` of ``torch.distributed``, over the store that the processes meet at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from squall.real.future import Future
from squall.sim.scripts.compat.groups import Group, resolve
from squall.sim.scripts.compat.work import Work, copy, in_background, member_meant


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
    _post(own, to, tag, copy(tensor))
    sent: Future[Any] = Future(what="a send")
    sent.mark_completed(None)
    return Work(sent)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    isend(tensor, dst, group, tag, group_dst)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work:
    return in_background(lambda: recv(tensor, src, group, tag, group_src))


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
        tensor.detach().copy_(value)
    return own.ranks[sender]


def _post(own: Group, to: int, tag: int, value: Any) -> None:
    me = own.rank()
    number = own.store.add(f"sent/{me}/{to}/{tag}", 1)
    own.store.set(f"sent/{me}/{to}/{tag}/{number}", value)
    place = own.store.add(f"arrived/{to}/{tag}", 1)
    own.store.set(f"arrived/{to}/{tag}/{place}", me)


def _collect(own: Group, source: int | None, tag: int) -> tuple[int, Any]:
    me = own.rank()
    if source is not None:
        own.taken[source, tag] = own.taken.get((source, tag), 0) + 1
        return source, _fetch(own, source, tag)
    while True:
        place = own.seen[tag] = own.seen.get(tag, 0) + 1
        sender = own.store.get(f"arrived/{me}/{tag}/{place}", own.timeout_s)
        if own.taken.get((sender, tag), 0) == 0:
            return sender, _fetch(own, sender, tag)
        own.taken[sender, tag] -= 1


def _fetch(own: Group, source: int, tag: int) -> Any:
    number = own.received[source, tag] = own.received.get((source, tag), 0) + 1
    key = f"sent/{source}/{own.rank()}/{tag}/{number}"
    value = own.store.get(key, own.timeout_s)
    own.store.delete(key)
    return value


NAMES: dict[str, Any] = {function.__name__: function for function in (irecv, isend, recv, send)}
