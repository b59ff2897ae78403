"""The state of one process group on the engine ``torch``, as the coordinator keeps it."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from squall.real.rpc.message_type import MessageType
from squall.sim.scripts.call import Call
from squall.sim.scripts.ledger import Ledger, group_named
from squall.sim.stock.ahead import When
from squall.sim.stock.memory_file import LentFile
from squall.sim.stock.worker import NativeWorker
from squall.sim.world import pieces
from squall.sim.world.pieces import POINT_TO_POINT, Connections, Tag
from squall.sim.world.primitives import SimTimer

#: large tensors of one lie in a file in memory
Piece = pieces.Piece[LentFile]

#: what has no number that all members count, or is asked for several times by one of them
NOT_NOTED = (POINT_TO_POINT, "monitored_barrier")
#: for "whoever sends first"
ANY = -1


@dataclass(eq=False)
class Wait:
    """An operation that is not over: what is still to come, and what has."""

    worker: NativeWorker
    question: int
    rank: int
    tag: Tag
    #: members whose piece is to come
    wants: list[int]
    #: members that have to say that they wait for ours
    readers: list[int]
    timeout_s: float
    since_s: float
    call: Call
    got: dict[int, Piece] = field(default_factory=dict)
    timer: SimTimer | None = None


class Listener(Protocol):
    """Told what has come to members of groups. ``sent``: how many pieces and notices were sent in all of them."""

    sent: int

    def piece(self, group: Group, src: int, dst: int, piece: Piece) -> None: ...

    def notice(self, group: Group, tag: Tag, src: int, dst: int) -> None: ...

    def lost(self, group: Group, member: int, peer: int, timed_out: bool) -> None: ...


class Group:
    """Told by its connections what has come, and tells ``groups``."""

    #: made when all members have come
    connections: Connections[LentFile]

    def __init__(self, groups: Listener, number: int, size: int) -> None:
        self._groups = groups
        self.number = number
        self.size = size
        self.ledger = Ledger(group_named((), ""), range(size))
        #: its members' ranks in the default group, once one has come
        self.ranks = list(range(size))
        self.is_default = True
        self.members: dict[int, NativeWorker] = {}
        #: whose connections it has closed itself, since an operation ran into its limit
        self.aborted: set[int] = set()
        #: who has come, before all have
        self.joining: dict[int, tuple[NativeWorker, int, SimTimer]] = {}
        #: of which ranks each that has come makes it, and in words
        self.made: list[tuple[list[int], str]] = []
        self.waits: list[Wait] = []
        #: by receiver, sender and tag; and the senders of those, by receiver and tag
        self.pieces: dict[tuple[int, int, Tag], deque[Piece]] = {}
        self.senders: dict[tuple[int, Tag], list[int]] = {}
        #: of messages that nobody has received: by sender, receiver, tag, and the how manieth it is of these
        self.sends: dict[tuple[int, int, Tag, int], Call] = {}
        #: of collectives, by receiver, sender and tag: when a piece, or a notice, comes, the how manieth
        #: it is of all that were sent, and what it is
        self.under_way: dict[tuple[int, int, Tag], tuple[float, int, Piece]] = {}
        #: how many members have called a collective that not all have called
        self.called: Counter[Tag] = Counter()
        #: how many wait for a piece that is not sent yet, by sender, receiver and tag
        self.notices: Counter[tuple[int, int, Tag]] = Counter()

    def is_made_of(self, ranks: list[int], made: str) -> None:
        """Of which ranks a script has made it, at which line; none: it is the default one, of all."""
        self.is_default = not ranks
        self.ranks = ranks or self.ranks
        self.ledger.of, self.ledger.ranks = group_named(ranks, made), self.ranks

    @property
    def is_of_same_members(self) -> bool:
        """Whether all that have come so far make it of the same ranks."""
        return all(ranks == self.made[0][0] for ranks, _ in self.made)

    def send(self, src: int, dst: int, type: MessageType, tag: Tag, *content: Any) -> Piece:
        about = (self.number, *named(tag))
        arrives_s, piece = self.connections.send(src, dst, type, tag, about, *content)
        self._groups.sent += 1
        if arrives_s is not None and tag[0] not in NOT_NOTED:
            self.under_way[dst, src, tag] = arrives_s, self._groups.sent, piece
        return piece

    def come(self, src: int, dst: int, piece: Piece) -> None:
        if piece.type is MessageType.NOTICE:
            self._groups.notice(self, piece.tag, src, dst)
        else:
            self._groups.piece(self, src, dst, piece)

    def lost(self, member: int, peer: int, timed_out: bool) -> None:
        self._groups.lost(self, member, peer, timed_out)

    def abort(self, member: int) -> None:
        """A member closes its connections."""
        self.aborted.add(member)
        for src in self.members:
            self.forget(src, member)
        self.connections.abort(member)

    def forget(self, src: int, dst: int) -> None:
        """What has come, and waits for a receiver: gloo sends it when there is one, over a connection that stands."""
        for key in [key for key in self.pieces if key[:2] == (dst, src) and _is_read_once(key[2])]:
            del self.pieces[key]
            senders = self.senders[dst, key[2]]
            senders[:] = [each for each in senders if each != src]
        for key in [key for key in self.notices if key[:2] == (dst, src)]:
            del self.notices[key]

    def gone(self, wait: Wait) -> int | None:
        """A member for which an operation waits in vain; None if there is none."""
        ended = self.connections.ended
        if ANY in wait.wants:
            others = [member for member in range(self.size) if member != wait.rank]
            return others[0] if all(ended(wait.rank, other) for other in others) else None
        return self.connections.first_ended(wait.rank, (*wait.wants, *wait.readers))

    def certain_end(self, wait: Wait) -> tuple[When, dict[int, Piece]] | None:
        """When an operation ends, and with what: once all that it waits for is under way that is certain, as what
        was sent arrives even when its sender ends. None if it is not."""
        keys = [(wait.rank, member, wait.tag) for member in (*wait.wants, *wait.readers)]
        coming = [self.under_way[key] for key in keys if key in self.under_way]
        if not coming or len(coming) < len(keys):
            return None
        at_s, number = max(each[:2] for each in coming)
        pieces = {member: each[2] for member, each in zip(wait.wants, coming, strict=False)}
        limit_s = wait.since_s + wait.timeout_s
        return ((at_s, True, number), wait.got | pieces) if at_s < limit_s else None


def _is_read_once(tag: Tag) -> bool:
    """Of a monitored barrier one member hears from the others in turn, also when one has not come."""
    return bool(tag[0] != "monitored_barrier")


def named(tag: Tag) -> tuple[str, int]:
    """As events have it."""
    return str(tag[0]), int(tag[1])
