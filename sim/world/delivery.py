"""A message on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from squall.real.rpc.store import Store
from squall.real.rpc.transport import PeerLost, Receive
from squall.sim.world.virtual_time import Due

if TYPE_CHECKING:
    from squall.real.rpc.message import Message

Receiver = tuple[Receive, PeerLost]
#: a group, and who sends there to whom
Link = tuple[Store, int, int]

#: receives what is sent to a process that ended without anybody being told
NOBODY: Receiver = (lambda message: None, lambda peer, reason, ended: None)


class Fate:
    """What was done to a message on its way.

    ``lost`` says why it does not arrive; "" if another delivery brings it. ``check`` is the
    checksum that it had when it was sent.
    """

    __slots__ = ("check", "lost")

    def __init__(self, lost: str | None = None, check: int | None = None) -> None:
        self.lost = lost
        self.check = check


class Conditions(Protocol):
    """What faults do to the links at this time."""

    def arrival_s(self, message: Message, sent_s: float, arrives_s: float) -> float:
        """When it arrives, if it would without them at ``arrives_s``."""


class Delivery(Due):
    """The event of one message's arrival."""

    __slots__ = ("callbacks", "fate", "message", "receiver", "sent_at", "store")

    def __init__(self, store: Store, message: Message, sent_at: float, receiver: Receiver) -> None:
        self.store = store
        self.message = message
        self.sent_at = sent_at
        #: the process that it was sent to, which a restart may have replaced since
        self.receiver = receiver
        self.fate: Fate | None = None


def link_of(delivery: Delivery) -> Link:
    return delivery.store, delivery.message.src, delivery.message.dst
