"""What the members of a process group send each other, over the simulated network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from squall.real.rpc.message_type import MessageType
from squall.real.rpc.store import Store
from squall.sim.scripts.ledger import Ledger
from squall.sim.world.network import Network
from squall.sim.world.pieces import POINT_TO_POINT, Connections, Piece, Tag

#: the name of the first group
DEFAULT = "default_pg"
#: what comes: values, word of members that wait for one, and from whom messages came, in their order
SENT, NOTICED, ARRIVED = "sent", "noticed", "arrived"


class _Given(NamedTuple):
    """Tensors that nobody else has."""

    tensors: list[Tensor]
    size_bytes: int


class GroupMessages:
    """Of one group, for all of its members. What has come to a member is in the store, by its receiver."""

    def __init__(
        self, network: Network, store: Store, name: str, ranks: Sequence[int], of: str
    ) -> None:
        self._store = store
        self._name = name
        self._size = len(ranks)
        self.ledger = Ledger(of, ranks)
        places = dict(enumerate(ranks))
        own = Store(network.runtime)  # members of several groups are at the same places
        self._connections: Connections[_Given] = Connections(network, own, self, places)
        self._opened = 0
        #: what members wait for; and by receiver and sender what has come and nobody waits for, which gloo would not
        #: have sent yet, so that it ends with the connection
        self._expected: dict[tuple[int, Tag], tuple[str, dict[str, int]]] = {}
        self._asked: set[str] = set()
        self._unasked: defaultdict[tuple[int, int], list[str]] = defaultdict(list)

    def open(self, member: int) -> None:
        """By the member's process."""
        self._connections.open(member)
        self._opened += 1
        if self._opened == self._size:
            self._connections.opened()

    def close(self, member: int) -> None:
        self._connections.close(member)

    def abort(self, member: int) -> None:
        """At its end, for good: what it waits for does not come."""
        self._connections.abort(member)
        for peer in range(self._size):
            self.lost(member, peer, timed_out=True)

    def send(self, src: int, dst: int, tag: Tag, tensors: list[Tensor]) -> int:
        """What one member gives another: how many bytes."""
        is_message = tag[0] == POINT_TO_POINT
        type = MessageType.SEND if is_message else MessageType.COLLECTIVE
        content = _Given(tensors, size_of(tensors))
        self._connections.send(src, dst, type, tag, (self._name, *tag), content=content)
        return content.size_bytes

    def notice(self, src: int, dst: int, tag: Tag) -> None:
        """Tell another member that this one waits for what it sends."""
        self._connections.send(src, dst, MessageType.NOTICE, tag, (self._name, *tag))

    def expect(
        self, member: int, tag: Tag, wants: Sequence[int], readers: Sequence[int]
    ) -> tuple[str, dict[str, int]]:
        """A member waits for these in a collective: the keys of what is to come, with whom it comes from, and before them the
        one under which the store has the first of them that ends before."""
        keys = {key(member, SENT, peer, tag): peer for peer in wants}
        for name, peer in keys.items():
            self.ask(member, peer, name)
        keys |= {key(member, NOTICED, peer, tag): peer for peer in readers}
        ended = f"{member}/ended/{tag[0]}/{tag[1]}"
        self._expected[member, tag] = ended, keys
        self._tell_ended(member, tag)
        return ended, keys

    def over(self, member: int, tag: Tag) -> None:
        """It waits no longer."""
        ended, keys = self._expected.pop((member, tag))
        for each in (ended, *keys):
            self.forget(each)

    def _tell_ended(self, member: int, tag: Tag) -> None:
        name, keys = self._expected[member, tag]
        missing = [peer for each, peer in keys.items() if not self._store.check([each])]
        ended = self._connections.first_ended(member, missing)
        if ended is not None:
            self._store.first(name, ended)

    # -- Receiver -------------------------------------------------------------------------

    def come(self, src: int, dst: int, piece: Piece[_Given]) -> None:
        tag, content = piece.tag, piece.content
        self._put(dst, SENT if content else NOTICED, src, tag, content and content.tensors)
        if content and tag[0] == POINT_TO_POINT:
            self._put(dst, ARRIVED, -1, tag, src)

    def _put(self, dst: int, what: str, src: int, tag: Tag, value: Any) -> None:
        number = 1  # of a collective there is one
        if tag[0] == POINT_TO_POINT:
            number = self._store.add(f"{dst}/{what}/{src}/{tag[1]}", 1)
        name = key(dst, what, src, tag, number)
        self._store.set(name, value)
        if what == SENT and name not in self._asked:
            self._unasked[dst, src].append(name)

    def ask(self, dst: int, src: int, name: str) -> None:
        """A member waits for it from now on."""
        self._asked.add(name)
        if name in self._unasked[dst, src]:
            self._unasked[dst, src].remove(name)

    def forget(self, name: str) -> None:
        """It has been read."""
        self._asked.discard(name)
        self._store.delete(name)

    def lost(self, member: int, peer: int, timed_out: bool) -> None:
        for name in self._unasked.pop((member, peer), ()):
            self._store.delete(name)
        self._store.set(f"{member}/gone/{peer}", peer)
        for each, tag in [*self._expected]:
            if each == member:
                self._tell_ended(member, tag)


def key(dst: int, what: str, src: int, tag: Tag, number: int = 1) -> str:
    """Under which the store has what has come to a member, the ``number``-th of it."""
    return f"{dst}/{what}/{src}/{tag[0]}/{tag[1]}/{number}"


def size_of(tensors: Sequence[Tensor]) -> int:
    """In bytes."""
    return sum(each.numel() * each.element_size() for each in tensors)
