"""Process groups of a script on the engine ``torch``, as the coordinator sees them.

An operation is what a member sends, and what it waits for. What it sends reaches another member when
the link between the two has carried it; what nobody waits for yet is kept until somebody does.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from squall.real.tracing import OPERATION_ENDED, OPERATION_STARTED
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.ledger import Call, Ledger, MismatchError
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.primitives import SimTimer

#: what names the draws of latencies, beside the types of messages
_PIECE, _NOTICE = 0x400, 0x401
#: what the tag of a message of point to point begins with
_POINT_TO_POINT = "send"
#: what has no number that all members count, or is asked for several times by one of them
_NOT_NOTED = (_POINT_TO_POINT, "monitored_barrier")
#: for "whoever sends first"
ANY = -1
#: seconds after the last piece of a member at which its end is seen
_CLOSE_S = 1e-9

Tag = tuple[Any, ...]


@dataclass(eq=False)
class _Wait:
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
    got: dict[int, bytes] = field(default_factory=dict)
    timer: SimTimer | None = None


class _Group:
    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.ledger = Ledger(number, size)
        self.members: dict[int, NativeWorker] = {}
        #: who has come, before all have
        self.joining: dict[int, tuple[NativeWorker, int, SimTimer]] = {}
        self.waits: list[_Wait] = []
        #: by receiver, sender and tag; and the senders of those, by receiver and tag
        self.pieces: dict[tuple[int, int, Tag], deque[bytes]] = {}
        self.senders: dict[tuple[int, Tag], list[int]] = {}
        #: how many wait for a piece that is not sent yet, by sender, receiver and tag
        self.notices: Counter[tuple[int, int, Tag]] = Counter()
        #: by sender, receiver and tag: messages of point to point under way, and when the last arrives
        self.under_way: dict[tuple[int, int, Tag], deque[bytes]] = {}
        self.arrives_s: dict[tuple[int, int, Tag], float] = {}
        #: by member: when the last of what it has sent arrives, notices too
        self.last_s: dict[int, float] = {}
        self.gone: set[int] = set()


class Groups:
    """Answers what sim/stock/group_guest.py asks."""

    def __init__(self, cluster: NativeCluster, *, go_on: bool = False) -> None:
        self._cluster = cluster
        #: whether the run goes on after what does not go together, and what that was
        self.go_on = go_on
        self.mismatches: list[str] = []
        self._groups: list[_Group] = []
        self._ranks: dict[NativeWorker, int] = {}
        #: as Run.operations
        self.operations = 0
        for word in ("new", "join", "do", "leave"):
            cluster.answers[f"group {word}"] = getattr(self, f"_{word}")
        cluster.on_gone.append(self._end)

    def waits(self) -> list[str]:
        """A line for each operation that is not over."""
        lines = []
        for group in self._groups:
            for rank, (worker, _, _) in group.joining.items():
                lines.append(
                    f"{worker.name}: has come to a process group of {group.size} as its rank {rank}, "
                    f"{len(group.joining)} are there"
                )
            for wait in group.waits:
                what = " ".join(map(str, wait.tag))
                for members, why in ((wait.wants, "data of"), (wait.readers, "a receiver at")):
                    if members:
                        who = "any rank" if ANY in members else f"ranks {members}"
                        lines.append(
                            f"{wait.worker.name}: rank {wait.rank} of process group {group.number} "
                            f"waits in {what} for {why} {who} since t={wait.since_s:.6f} s"
                        )
        return lines

    # -- questions ------------------------------------------------------------------------

    def _new(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        group = _Group(len(self._groups), rest[0])
        self._groups.append(group)
        self._cluster.answer(worker, question, group.number)

    def _join(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        number, rank, timeout_s = rest
        group = self._groups[number]
        if rank in group.joining or rank in group.members:
            text = f"rank {rank} has joined the process group already"
            self._cluster.answer(worker, question, text)
            return

        def late() -> None:
            del group.joining[rank]
            text = (
                f"Gloo connectFullMesh failed: after {timeout_s:g} s only "
                f"{len(group.joining) + 1} of {group.size} ranks have come"
            )
            self._cluster.answer(worker, question, text)

        timer = self._cluster.runtime.call_later(timeout_s, late)
        group.joining[rank] = (worker, question, timer)
        if len(group.joining) == group.size:
            joining, group.joining = group.joining, {}
            for member, (each, asked, limit) in sorted(joining.items()):
                limit.cancel()
                group.members[member] = each
                self._ranks.setdefault(each, member)
                self._cluster.answer(each, asked, None)

    def _do(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        number, rank, tag, agreed, place, pieces, wants, tells, readers, timeout_s = rest
        group, runtime = self._groups[number], self._cluster.runtime
        size_bytes = sum(map(len, pieces.values()))
        worker.tracer.emit(OPERATION_STARTED, number, rank, *_named(tag), size_bytes)
        if tag[0] not in _NOT_NOTED:
            self._note(group, tag, Call(rank, tag[0], agreed, place, runtime.now()))
        for dst, data in pieces.items():
            arrive = partial(self._piece, group, tag)
            self._carry(group, rank, dst, _PIECE, data, arrive, (rank, dst, tag))
        for src in tells:
            self._carry(group, rank, src, _NOTICE, b"", partial(self._notice, group, tag))
        wait = _Wait(
            worker, question, rank, tag, list(wants), list(readers), timeout_s, runtime.now()
        )
        for src in wants:
            self._fetch(group, wait, src)
        for dst in readers:
            if group.notices[rank, dst, tag]:
                group.notices[rank, dst, tag] -= 1
                wait.readers.remove(dst)
        group.waits.append(wait)
        if self._over(group, wait):
            return
        gone = next((m for m in (*wait.wants, *wait.readers) if m in group.gone), None)
        if gone is not None:
            self._fail(group, wait, _closed(gone))
            return
        wait.timer = runtime.call_later(timeout_s, lambda: self._late(group, wait))

    def _note(self, group: _Group, tag: Tag, call: Call) -> None:
        """Raises MismatchError, unless the run is to go on."""
        try:
            group.ledger.note(tag[1], call)
        except MismatchError as error:
            self.mismatches.append(str(error))
            if not self.go_on:
                raise

    def _leave(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        number, rank = rest
        self._left(self._groups[number], rank)
        self._cluster.answer(worker, question, None)

    # -- what is under way ----------------------------------------------------------------

    def _carry(
        self,
        group: _Group,
        src: int,
        dst: int,
        kind: int,
        data: bytes,
        arrive: Any,
        order: tuple[int, int, Tag] | None = None,
    ) -> None:
        """Let ``data`` go from one member to another.

        Messages of one ``order`` arrive as they were sent, if they are of point to point: gloo matches
        them by sender, receiver and tag, in the order of the calls. Collectives have a number each, and
        may overtake each other: gloo has two threads for those of a group.
        """
        runtime = self._cluster.runtime
        start, end = self._place(group, src), self._place(group, dst)
        delay_s = self._cluster.network.delay_s(start, end, kind, len(data))
        arrives_s = runtime.now() + delay_s
        sent = deque((data,))
        if order is not None and order[2][0] == _POINT_TO_POINT:
            arrives_s = max(arrives_s, group.arrives_s.get(order, 0.0))
            group.arrives_s[order] = arrives_s
            # What has been sent before may be due at the same instant.
            sent = group.under_way.setdefault(order, deque())
            sent.append(data)
        # It is the network's, and goes on when its sender has ended.
        after_s = arrives_s - runtime.now()
        runtime.call_later(after_s, lambda: arrive(src, dst, sent.popleft())).worker = None
        group.last_s[src] = max(group.last_s.get(src, 0.0), arrives_s)

    def _place(self, group: _Group, rank: int) -> int:
        """Which end of a link a member is: that of its RPC messages, or its rank in the first group that it
        was in, which is that of all."""
        worker = group.members[rank]
        return worker.rank if worker.rank >= 0 else self._ranks[worker]

    def _piece(self, group: _Group, tag: Tag, src: int, dst: int, data: bytes) -> None:
        group.pieces.setdefault((dst, src, tag), deque()).append(data)
        group.senders.setdefault((dst, tag), []).append(src)
        for wait in group.waits:
            if (wait.rank, wait.tag) == (dst, tag) and (src in wait.wants or ANY in wait.wants):
                self._fetch(group, wait, src if src in wait.wants else ANY)
                self._over(group, wait)
                return

    def _fetch(self, group: _Group, wait: _Wait, wanted: int) -> None:
        """Take what has come from ``wanted``, if anything has."""
        senders = group.senders.get((wait.rank, wait.tag), [])
        if not senders or (wanted != ANY and wanted not in senders):
            return
        src = senders[0] if wanted == ANY else wanted
        senders.remove(src)
        queue = group.pieces[wait.rank, src, wait.tag]
        wait.got[src] = queue.popleft()
        if not queue:
            del group.pieces[wait.rank, src, wait.tag]
        if not senders:
            del group.senders[wait.rank, wait.tag]
        wait.wants.remove(wanted)
        if wanted == ANY:
            arrive = partial(self._notice, group, wait.tag)
            self._carry(group, wait.rank, src, _NOTICE, b"", arrive)

    def _notice(self, group: _Group, tag: Tag, src: int, dst: int, _: bytes) -> None:
        """A member learns that another one waits for what it sends."""
        for wait in group.waits:
            if (wait.rank, wait.tag) == (dst, tag) and src in wait.readers:
                wait.readers.remove(src)
                self._over(group, wait)
                return
        group.notices[dst, src, tag] += 1

    # -- ends -----------------------------------------------------------------------------

    def _over(self, group: _Group, wait: _Wait) -> bool:
        if wait.wants or wait.readers:
            return False
        self._close(group, wait, None)
        self.operations += 1
        self._cluster.answer(wait.worker, wait.question, (None, wait.got))
        return True

    def _fail(self, group: _Group, wait: _Wait, text: str) -> None:
        self._close(group, wait, text)
        self._cluster.answer(wait.worker, wait.question, (text, {}))

    def _close(self, group: _Group, wait: _Wait, error: str | None) -> None:
        group.waits.remove(wait)
        tracer = wait.worker.tracer
        tracer.emit(OPERATION_ENDED, group.number, wait.rank, *_named(wait.tag), error)
        if wait.timer is not None:
            wait.timer.cancel()

    def _late(self, group: _Group, wait: _Wait) -> None:
        what = "recv" if wait.wants else "send"
        limit_ms = round(wait.timeout_s * 1000)
        self._fail(group, wait, f"Timed out waiting {limit_ms}ms for {what} operation to complete")

    def _end(self, worker: NativeWorker) -> None:
        """A process has ended, with its connections."""
        for group in self._groups:
            for rank, (each, _, timer) in list(group.joining.items()):
                if each is worker:
                    timer.cancel()
                    del group.joining[rank]
            for rank, each in group.members.items():
                if each is worker:
                    self._left(group, rank)

    def _left(self, group: _Group, rank: int) -> None:
        """What it has sent still arrives, before its end is seen."""
        for wait in [each for each in group.waits if each.rank == rank]:
            self._fail(group, wait, "the process group was destroyed on this rank")
        runtime = self._cluster.runtime
        after_s = max(0.0, group.last_s.get(rank, 0.0) - runtime.now()) + _CLOSE_S
        runtime.call_later(after_s, lambda: self._seen_gone(group, rank)).worker = None

    def _seen_gone(self, group: _Group, rank: int) -> None:
        group.gone.add(rank)
        for wait in list(group.waits):
            others = {*range(group.size)} - {wait.rank}
            nobody = ANY in wait.wants and others <= group.gone
            if rank in wait.wants or rank in wait.readers or nobody:
                self._fail(group, wait, _closed(rank))


def _named(tag: Tag) -> tuple[str, int]:
    """As events have it."""
    return str(tag[0]), int(tag[1])


def _closed(rank: int) -> str:
    return (
        f"Connection closed by peer (rank {rank} of the process group). This is typically caused by a "
        "remote worker crashing. Check the logs of the remote worker before reporting an error."
    )
