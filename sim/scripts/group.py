"""The state of one process group, on either engine, as whoever carries its messages keeps it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from squall.model.events.names import code
from squall.real.rpc.message_type import MessageType
from squall.real.tracing import Tracer
from squall.sim.scripts.backends import Backend
from squall.sim.scripts.call import Call
from squall.sim.scripts.ledger import Ledger, group_named
from squall.sim.world.pieces import POINT_TO_POINT, Connections, Content, Part, Piece, Tag
from squall.sim.world.primitives import SimTimer

#: what has no number that all members count, or is asked for several times by one of them
NOT_NOTED = (POINT_TO_POINT, "monitored_barrier")
#: for "whoever sends first"
ANY = -1
#: when an operation ends: seconds of virtual time, whether that is still to be queued for that instant, and its
#: place among those
When = tuple[float, bool, int]

C = TypeVar("C", bound=Content)


class Member(Protocol):
    """A process that is in groups."""

    tracer: Tracer

    @property
    def known_as(self) -> str: ...


@dataclass(eq=False)
class Wait(Generic[C]):
    """An operation that is not over: what is still to come, and what has."""

    worker: Any
    #: by which its process knows it
    question: Any
    rank: int
    tag: Tag
    #: members whose piece is to come
    wants: list[int]
    #: members that have to say that they wait for ours
    readers: list[int]
    timeout_s: float
    call: Call
    #: told what went wrong, if anything did, and what has come
    answer: Callable[[str | None, dict[int, Piece[C]]], object]
    #: which batch of messages it is in, 0 for none
    batch: int = 0
    got: dict[int, Piece[C]] = field(default_factory=dict)
    #: members whose part is done, although what they gave is still to come: these may leave
    done: set[int] = field(default_factory=set)
    timer: SimTimer | None = None
    #: on which stream of its member it is, if the backend has any; and what begins it, if others go before it there
    stream: tuple[int, ...] = ()
    held: Callable[[], object] | None = None

    @property
    def since_s(self) -> float:
        return self.call.at_s


class Listener(Protocol[C]):
    """Told what has come to members of groups. ``sent``: how many pieces and notices were sent in all of them."""

    sent: int
    backend: Backend

    def piece(self, group: ProcessGroup[C], src: int, dst: int, piece: Piece[C]) -> None: ...

    def notice(self, group: ProcessGroup[C], tag: Tag, src: int, dst: int) -> None: ...

    def lost(self, group: ProcessGroup[C], member: int, peer: int, timed_out: bool) -> None: ...


class ProcessGroup(Generic[C]):
    """Told by its connections what has come, and tells ``groups``. ``name``: as events have it."""

    #: made when all members have come
    connections: Connections[C]

    def __init__(self, groups: Listener[C], name: int | str, size: int) -> None:
        self._groups = groups
        self.name = name
        self.size = size
        self.ledger = Ledger(group_named((), ""), range(size))
        #: its members' ranks in the default group, once one has come
        self.ranks = list(range(size))
        self.is_default = True
        self.members: dict[int, Any] = {}
        #: whose connections it has closed itself, since an operation ran into its limit
        self.aborted: set[int] = set()
        #: of which ranks each that has come makes it, and in words
        self.made: list[tuple[list[int], str]] = []
        self.waits: list[Wait[C]] = []
        #: by receiver, sender and tag; and the senders of those, by receiver and tag
        self.pieces: dict[tuple[int, int, Tag], deque[Piece[C]]] = {}
        self.senders: dict[tuple[int, Tag], list[int]] = {}
        #: of messages that nobody has received: by sender, receiver, tag, and the how manieth it is of these
        self.sends: dict[tuple[int, int, Tag, int], Call] = {}
        #: of collectives, by receiver, sender and tag: when a piece, or a notice, comes, the how manieth
        #: it is of all that were sent, and what it is
        self.under_way: dict[tuple[int, int, Tag], tuple[float, int, Piece[C]]] = {}
        #: by stream of a member: what is not over there, batch by batch
        self.streams: dict[tuple[int, ...], list[list[Wait[C]]]] = {}
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

    def send(
        self, src: int, dst: int, type: MessageType, tag: Tag, given: Part[C] | None = None
    ) -> Piece[C]:
        piece = self.piece(src, dst, type, tag, given or Part())
        arrives_s = self.connections.send(src, dst, piece)
        self._groups.sent += 1
        if arrives_s is not None and tag[0] not in NOT_NOTED:
            self.under_way[dst, src, tag] = arrives_s, self._groups.sent, piece
        return piece

    def carry(self, src: int, dst: int, type: MessageType, tag: Tag, given: Part[C]) -> None:
        """Send what ends no operation by itself."""
        self.connections.send(src, dst, self.piece(src, dst, type, tag, given))

    def piece(self, src: int, dst: int, type: MessageType, tag: Tag, given: Part[C]) -> Piece[C]:
        """What is sent from one member to another."""
        return self.connections.piece(src, dst, type, tag, (self.name, *named(tag)), given)

    def come(self, src: int, dst: int, piece: Piece[C]) -> None:
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
            if self.pieces[key][0].size_bytes <= self._groups.backend.eager_bytes:
                continue
            del self.pieces[key]
            senders = self.senders[dst, key[2]]
            senders[:] = [each for each in senders if each != src]
        for key in [key for key in self.notices if key[:2] == (dst, src)]:
            del self.notices[key]

    def gone(self, wait: Wait[C]) -> int | None:
        """A member for which an operation waits in vain; None if there is none."""
        ended = self.connections.ended
        if ANY in wait.wants:
            others = [member for member in range(self.size) if member != wait.rank]
            return others[0] if all(ended(wait.rank, other) for other in others) else None
        needed = [each for each in (*wait.wants, *wait.readers) if each not in wait.done]
        return self.connections.first_ended(wait.rank, needed)

    def certain_end(self, wait: Wait[C]) -> tuple[When, dict[int, Piece[C]]] | None:
        """When an operation ends, and with what: once all that it waits for is under way that is certain, as what
        was sent arrives even when its sender ends. None if it is not."""
        keys = [(wait.rank, member, wait.tag) for member in (*wait.wants, *wait.readers)]
        coming = [self.under_way[key] for key in keys if key in self.under_way]
        if wait.held or not coming or len(coming) < len(keys):
            return None
        at_s, number = max(each[:2] for each in coming)
        pieces = {member: each[2] for member, each in zip(wait.wants, coming, strict=False)}
        limit_s = wait.since_s + wait.timeout_s
        return ((at_s, True, number), wait.got | pieces) if at_s < limit_s else None

    # -- streams --------------------------------------------------------------------------

    def put_on_stream(self, wait: Wait[C], begin: Callable[[], object]) -> None:
        """An operation begins when those before it on its stream are over."""
        peers = (*wait.wants, *wait.readers) if _is_single_message(wait) else ()
        wait.stream = wait.rank, *peers
        batches = self.streams.setdefault(wait.stream, [])
        if batches and wait.batch and batches[-1][-1].batch == wait.batch:
            batches[-1].append(wait)
        else:
            batches.append([wait])
        if len(batches) > 1:
            wait.held = begin
        else:
            begin()

    def take_off_stream(self, wait: Wait[C]) -> None:
        """It is over."""
        batches = self.streams.get(wait.stream, [])
        for batch in [each for each in batches if wait in each]:
            batch.remove(wait)
            if not batch:
                batches.remove(batch)
        for each in [*batches[0]] if batches else ():
            begin, each.held = each.held, None
            if begin is not None:
                begin()

    def front(self, wait: Wait[C]) -> Wait[C]:
        """What keeps an operation back: itself, or the first one on its stream."""
        return self.streams[wait.stream][0][0] if wait.held else wait

    # -- in words -------------------------------------------------------------------------

    def wanted(self, wait: Wait[C]) -> list[int]:
        """Members for which an operation waits."""
        wait = self.front(wait)
        wanted = [*wait.wants, *wait.readers]
        return [each for each in self.members if each != wait.rank] if ANY in wanted else wanted

    def told(self, members: list[int]) -> str:
        return " and ".join(f"rank {self.ranks[member]}" for member in members)

    def awaited(self, wait: Wait[C], wanted: list[int]) -> str:
        """What an operation waits for."""
        wait = self.front(wait)
        kind, tag = named(wait.tag)
        ranks = self.told(wanted)
        if kind != POINT_TO_POINT:
            where = "" if self.is_default else f" in {self.ledger.of}"
            return f"{ranks} to call {code(kind)}{where}"
        what = f"a message of {ranks}" if wait.wants else f"{ranks} to receive"
        return f"{what} with tag {tag}"


def _is_read_once(tag: Tag) -> bool:
    """Of a monitored barrier one member hears from the others in turn, also when one has not come."""
    return bool(tag[0] != "monitored_barrier")


def _is_single_message(wait: Wait[Any]) -> bool:
    return wait.tag[0] == POINT_TO_POINT and not wait.batch


def named(tag: Tag) -> tuple[str, int]:
    """As events have it."""
    return str(tag[0]), int(tag[1])
