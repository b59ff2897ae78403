"""What the members of a process group send each other, over the simulated network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from squall.real.rpc.message_type import MessageType
from squall.real.rpc.store import Store
from squall.sim.scripts.compat.carry import Parcel
from squall.sim.scripts.ledger import Ledger
from squall.sim.world.network import Network
from squall.sim.world.pieces import POINT_TO_POINT, Connections, Piece, Tag

#: the name of the first group
DEFAULT = "default_pg"
#: collectives in which members give each other parts
IN_PARTS = ("scatter", "reduce_scatter", "all_to_all", "scatter_object_list")
#: bytes of what is no tensor
_SIZE_BYTES = 8


class _Value(NamedTuple):
    """What a member gives: tensors that nobody else has, or what is no tensor."""

    value: Any
    size_bytes: int


class GroupMessages:
    """Of one group, for all of its members. What has come to a member is in the store, by its receiver."""

    def __init__(self, network: Network, store: Store, name: str, ranks: Sequence[int]) -> None:
        self._store = store
        self._name = name
        self._size = len(ranks)
        self.ledger = Ledger("0" if name == DEFAULT else name, len(ranks))
        places = self.ledger.ranks = dict(enumerate(ranks))
        own = Store(network.runtime)  # members of several groups are at the same places
        self._connections: Connections[_Value] = Connections(network, own, self, places)
        self._opened = 0

    def open(self, member: int) -> None:
        """By the member's process."""
        self._connections.open(member)
        self._opened += 1
        if self._opened == self._size:
            self._connections.opened()

    def close(self, member: int) -> None:
        self._connections.close(member)

    def give(self, src: int, kind: str, number: int, value: Any) -> int:
        """To all members, in the collective of that number: how many bytes are sent."""
        self._store.set(f"{src}/{number}/{src}", value)
        type, tag, sent = MessageType.COLLECTIVE, (kind, number), 0
        for dst in range(self._size):
            if dst != src:
                own = _only(value, dst) if kind in IN_PARTS else value
                sent += self._send(src, dst, type, tag, own)
        return sent

    def post(self, src: int, dst: int, tag: int, value: Any) -> int:
        """From point to point: how many bytes are sent."""
        return self._send(src, dst, MessageType.SEND, (POINT_TO_POINT, tag), value)

    def _send(self, src: int, dst: int, type: MessageType, tag: Tag, value: Any) -> int:
        content = _Value(value, _size_bytes(value))
        self._connections.send(src, dst, type, tag, (self._name, *tag), content=content)
        return content.size_bytes

    # -- Receiver -------------------------------------------------------------------------

    def come(self, src: int, dst: int, piece: Piece[_Value]) -> None:
        kind, number = piece.tag
        assert piece.content is not None
        if kind != POINT_TO_POINT:
            self._store.set(f"{dst}/{number}/{src}", piece.content.value)
            return
        count = self._store.add(f"{dst}/sent/{src}/{number}", 1)
        self._store.set(f"{dst}/sent/{src}/{number}/{count}", piece.content.value)
        place = self._store.add(f"{dst}/arrived/{number}", 1)
        self._store.set(f"{dst}/arrived/{number}/{place}", src)

    def lost(self, member: int, peer: int, timed_out: bool) -> None:
        self._store.set(f"{member}/gone/{peer}", True)


def _only(parts: list[Any], member: int) -> list[Any]:
    """Of some that are each for another member, that of this one."""
    return [part if at == member else None for at, part in enumerate(parts)]


def _size_bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if value is None:
        return 0
    if isinstance(value, Parcel):
        return len(value) + _size_bytes(value.beside)
    if isinstance(value, list | tuple):
        return sum(map(_size_bytes, value))
    return _SIZE_BYTES
