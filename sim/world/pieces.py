"""What the members of a process group send each other, carried as TCP carries it.

Messages of point to point come in the order in which they were sent, by sender, receiver and tag, as gloo
matches them. Collectives have a number each, and may overtake each other: gloo has two threads for
those of a group. What is lost is sent again, so that a fault of a link is a delay; a connection that is
reset, or whose other end has gone, stays so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.store import Store
from squall.sim.world.network import Network

Tag = tuple[Any, ...]

#: what the tag of a message of point to point begins with
POINT_TO_POINT = "send"
#: seconds after which what was not acknowledged is sent again (Linux: TCP_RTO_MIN), twice as long each
#: time up to the most (TCP_RTO_MAX), and how often, before the connection is given up (tcp_retries2)
_AGAIN_S, _MOST_S, _TIMES = 0.2, 120.0, 15


class Content(Protocol):
    """What is sent and is no bytes: elements of large tensors in shared memory, or values."""

    @property
    def size_bytes(self) -> int: ...


C = TypeVar("C", bound=Content)


class Part(NamedTuple, Generic[C]):
    """What a member sends another one: bytes, and what stands beside them. ``moved_bytes``: how many its link carries,
    None for all of these."""

    data: bytes = b""
    content: C | None = None
    moved_bytes: int | None = None

    @property
    def size_bytes(self) -> int:
        if self.moved_bytes is not None:
            return self.moved_bytes
        return len(self.data) + (0 if self.content is None else self.content.size_bytes)


class Piece(Message, Generic[C]):
    """``at``: the how manieth of point to point it is of its sender, receiver and tag; ``given``: what it brings."""

    __slots__ = ("at", "given", "tag")

    tag: Tag
    at: int
    given: Part[C]

    @property
    def content(self) -> C | None:
        return self.given.content

    @property
    def size_bytes(self) -> int:
        return self.given.size_bytes

    def copy(self) -> Piece[C]:
        # Bytes are shared safely: nobody can write to them.
        copy: Piece[C] = Piece(
            self.type, self.payload, src=self.src, dst=self.dst, about=self.about
        )
        copy.tag, copy.at, copy.given = self.tag, self.at, self.given
        return copy


class Receiver(Protocol[C]):
    """A group, which is told what has come, and which connections have ended."""

    def come(self, src: int, dst: int, piece: Piece[C]) -> None: ...

    def lost(self, member: int, peer: int, timed_out: bool) -> None: ...


class Connections(Generic[C]):
    """Between the members of one group, each to each. ``places``: the ends of links where they are."""

    def __init__(
        self, network: Network, store: Store, receiver: Receiver[C], places: dict[int, int]
    ) -> None:
        self._network = network
        self._store = store
        self._receiver = receiver
        self._places = places
        self._members = {place: member for member, place in places.items()}
        #: the two ends of those that have ended, each as it has learned, the first first
        self._ended: dict[tuple[int, int], None] = {}
        self._sent: Counter[tuple[int, int, Tag]] = Counter()
        #: what has come of point to point, and what of it was too early
        self._come: Counter[tuple[int, int, Tag]] = Counter()
        self._early: dict[tuple[int, int, Tag, int], Piece[C]] = {}
        #: how much of a member's is to be sent again, and who leaves once it is
        self._again: Counter[int] = Counter()
        self._leaving: set[int] = set()

    def open(self, member: int) -> None:
        """At its end, by its process."""
        lost = partial(self._lost, member)
        self._network.attach(self._store, self._places[member], self._arrived, lost)

    def opened(self) -> None:
        """At all ends."""
        self._network.connect(self._store, self._members)

    def close(self, member: int) -> None:
        """At its end, once what it has sent is under way; of one that has vanished nobody is told."""
        place = self._places[member]
        if self._again[member]:
            self._leaving.add(member)
        elif not self._network.has_vanished(self._store, place):
            self._network.detach(self._store, place)

    def abort(self, member: int) -> None:
        """At its end, for good: it learns nothing more, and what it has to send again is not sent. Others learn of it
        after what else happens at this instant."""
        self._ended |= {(member, peer): None for peer in self._places if peer != member}
        self._network.runtime.call_later_for_nobody(0.0, lambda: self.close(member))

    def ended(self, member: int, peer: int) -> bool:
        """Whether ``member`` has learned that its connection to ``peer`` has ended."""
        return (member, peer) in self._ended

    def first_ended(self, member: int, peers: Sequence[int]) -> int | None:
        """Of ``peers`` the one whose end it has learned of first; None if of none."""
        found = (peer for at, peer in self._ended if at == member and peer in peers)
        return next(found, None)

    def piece(
        self,
        src: int,
        dst: int,
        type: MessageType,
        tag: Tag,
        about: tuple[Any, ...],
        given: Part[C],
    ) -> Piece[C]:
        """The next one of its sender, receiver and tag."""
        ends = self._places[src], self._places[dst]
        piece: Piece[C] = Piece(type, given.data, src=ends[0], dst=ends[1], about=about)
        piece.tag, piece.at, piece.given = tag, self._sent[src, dst, tag], given
        return piece

    def send(self, src: int, dst: int, piece: Piece[C]) -> float | None:
        """Returns when it arrives, None if that is not certain."""
        if piece.type is MessageType.SEND:
            self._sent[src, dst, piece.tag] += 1
        return self._send(src, dst, piece, 0)

    # -- inside ---------------------------------------------------------------------------

    def _send(self, src: int, dst: int, piece: Piece[C], times: int) -> float | None:
        if self.ended(src, dst):
            return None
        try:
            return self._network.send(
                self._store, piece, lost=lambda: self._send_again(src, dst, piece, times)
            )
        except ConnectionError:
            return None  # its receiver has left, which this one is about to learn

    def _send_again(self, src: int, dst: int, piece: Piece[C], times: int) -> None:
        if times == _TIMES:
            self._lost(src, self._places[dst], "")
            return
        self._again[src] += 1

        def send() -> None:
            self._again[src] -= 1
            self._send(src, dst, piece, times + 1)
            if src in self._leaving and not self._again[src]:
                self._leaving.remove(src)
                self.close(src)

        # It is the network's, and goes on when its sender has ended.
        after_s = min(_AGAIN_S * 2**times, _MOST_S)
        self._network.runtime.call_later_for_nobody(after_s, send)

    def _arrived(self, piece: Message) -> None:
        assert isinstance(piece, Piece)
        src, dst, tag = self._members[piece.src], self._members[piece.dst], piece.tag
        if self.ended(dst, src):
            return
        if piece.type is not MessageType.SEND:
            self._receiver.come(src, dst, piece)
            return
        self._early[src, dst, tag, piece.at] = piece
        while (
            next := self._early.pop((src, dst, tag, self._come[src, dst, tag]), None)
        ) is not None:
            self._come[src, dst, tag] += 1
            self._receiver.come(src, dst, next)

    def _lost(self, member: int, place: int, reason: str, ended: int | None = None) -> None:
        peer = self._members[place]
        if not self.ended(member, peer):
            self._ended[member, peer] = None
            self._receiver.lost(member, peer, timed_out=not reason)
