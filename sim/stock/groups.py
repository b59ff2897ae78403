"""Process groups of a script on the engine ``torch``, as the coordinator sees them.

An operation is what a member sends, and what it waits for. What it sends reaches another member when
the link between the two has carried it; what nobody waits for yet is kept until somebody does.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from squall.model.events.hang import hang_of
from squall.model.events.names import code
from squall.model.events.run import Stall
from squall.model.events.waiting import wait_graph
from squall.real.rpc.message_type import MessageType
from squall.real.tracing import OPERATION_ENDED, OPERATION_STARTED
from squall.sim.scripts.call import Call
from squall.sim.scripts.collectives import ABORTED, BYTES, too_late
from squall.sim.scripts.findings import Findings
from squall.sim.scripts.ledger import MismatchError
from squall.sim.stock.ahead import When
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.group import ANY, NOT_NOTED, Group, Piece, Wait, named
from squall.sim.stock.memory_file import LentFile
from squall.sim.stock.waits import Operation
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.pieces import POINT_TO_POINT, Connections, Tag


class Groups:
    """Answers what sim/stock/group_guest.py asks."""

    def __init__(self, cluster: NativeCluster, findings: Findings) -> None:
        self._cluster = cluster
        self._findings = findings
        #: as Run.stall
        self.stall: Stall | None = None
        self._stalled_s = -1.0
        self._groups: list[Group] = []
        #: as Run.operations
        self.operations = 0
        #: how many pieces and notices were sent
        self.sent = 0
        for word in ("new", "join", "do", "wait", "leave"):
            cluster.answers[f"group {word}"] = getattr(self, f"_{word}")
        cluster.on_gone.append(self._end)

    def __getitem__(self, number: int) -> Group:
        return self._groups[number]

    def last_call(self, rank: int, ranks: tuple[int, ...], kinds: tuple[str, ...]) -> str:
        """What ``rank`` has last called of collectives of these ``kinds`` in groups of these ``ranks``; "" if it
        has not."""
        calls: list[tuple[float, str]] = [(0.0, "")]
        for group in self._groups:
            members = [self._cluster.host.rank(each) for each in group.members.values()]
            if members == [*ranks]:
                last = group.ledger.last
                for call in (last[rank, kind] for kind in kinds if (rank, kind) in last):
                    about = f"collective {call.sequence} of {group.ledger.of}, {call}"
                    calls.append((call.at_s, about))
        return max(calls)[1]

    # -- questions ------------------------------------------------------------------------

    def _new(self, worker: NativeWorker, question: int, size: int) -> None:
        group = Group(self, len(self._groups), size)
        self._groups.append(group)
        self._cluster.answer(worker, question, group.number)

    def _join(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        number, rank, ranks, place, made, timeout_s = rest
        group = self._groups[number]
        if not group.made:
            group.is_made_of(ranks, made)
        known = self._cluster.host.rank(worker)
        who = worker.name if known is None else f"rank {known}"
        group.made.append(
            (
                ranks,
                f"{who} makes it of ranks {ranks or group.ranks}"
                + (f", at {place}" if place else ""),
            )
        )
        if not group.is_of_same_members:
            told = "; ".join(text for _, text in (group.made[0], group.made[-1]))
            self._findings.note("mismatch", f"a process group differs in members: {told}")
        if rank in group.joining or rank in group.members:
            text = f"rank {rank} has joined the process group already"
            self._cluster.answer(worker, question, text)
            return

        def late() -> None:
            come = [group.ranks[each] for each in sorted(group.joining)]
            there = f"ranks {come} of {group.size} have come to {group.ledger.of}"
            self._stall(Stall("error", [there, *self._cluster.waits()]))
            del group.joining[rank]
            text = (
                f"Gloo connectFullMesh failed: after {timeout_s:g} s only "
                f"{len(group.joining) + 1} of {group.size} ranks have come"
            )
            self._cluster.answer(worker, question, text)

        timer = self._cluster.runtime.call_later(timeout_s, late)
        group.joining[rank] = (worker, question, timer)
        if len(group.joining) == len(group.ranks) and group.is_of_same_members:
            joining, group.joining = group.joining, {}
            group.members = {member: joining[member][0] for member in sorted(joining)}
            self._connect(group)
            for member in group.members:
                each, asked, limit = joining[member]
                limit.cancel()
                self._cluster.answer(each, asked, None)

    def _connect(self, group: Group) -> None:
        """All members have come."""
        cluster, members = self._cluster, group.members
        for member, worker in members.items():
            cluster.host.joined(worker, member, group.size)
        known = [cluster.host.rank(worker) for worker in members.values()]
        # Of some the rank in the RPC group may be another one's in the first process group.
        is_clear = None not in known and len({*known}) == group.size
        places = {at: rank for at, rank in enumerate(known) if rank is not None and is_clear}
        places = places or {member: member for member in members}
        store = cluster.network.store(f"process group {group.number}")
        group.connections = Connections(cluster.network, store, group, places)
        for member, worker in members.items():
            with cluster.on_behalf_of(worker):
                group.connections.open(member)
        group.connections.opened()
        cluster.host.begin()

    def _do(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        number, rank, tag, agreed, parts, place, names, pieces, wants, tells, readers, timeout_s = (
            rest
        )
        group, runtime = self._groups[number], self._cluster.runtime
        files = {
            lent: None if lent is None else LentFile(worker.process.pid, *lent)
            for lent in {lent for _, lent in pieces.values()}
        }
        size_bytes = sum(
            len(data) + (0 if lent is None else lent[1]) for data, lent in pieces.values()
        )
        worker.tracer.emit(OPERATION_STARTED, number, rank, *named(tag), size_bytes)
        gives, takes = parts or ((), ())
        is_message = tag[0] == POINT_TO_POINT
        kind = ("send" if pieces else "recv") if is_message else tag[0]
        now_s = runtime.now()
        call = Call(
            group.ranks[rank], rank, kind, tag[1], agreed, place, now_s, gives, takes, names
        )
        if tag[0] not in NOT_NOTED:
            self._note(group, call)
        type = MessageType.SEND if is_message else MessageType.COLLECTIVE
        for dst, (data, lent) in pieces.items():
            piece = group.send(rank, dst, type, tag, data, files[lent])
            if is_message:
                group.sends[rank, dst, tag, piece.at] = group.ledger.known(call)
        for src in tells:
            group.send(rank, src, MessageType.NOTICE, tag)
        wait = Wait(
            worker, question, rank, tag, list(wants), list(readers), timeout_s, runtime.now(), call
        )
        for src in wants:
            self._fetch(group, wait, src)
        for dst in readers:
            if group.notices[rank, dst, tag]:
                group.notices[rank, dst, tag] -= 1
                group.under_way.pop((rank, dst, tag), None)
                wait.readers.remove(dst)
        group.waits.append(wait)
        if tag[0] not in NOT_NOTED:
            group.called[tag] += 1
            if group.called[tag] == group.size:
                del group.called[tag]
                for each in group.waits:
                    if each.tag == tag and (end := group.certain_end(each)) is not None:
                        self._foresee(each, *end)
        if self._over(group, wait):
            return
        if (gone := group.gone(wait)) is not None:
            self._cut_off(group, wait, gone)
            return
        self._limit(group, wait, timeout_s)

    def _wait(
        self, worker: NativeWorker, question: int, number: int, asked: int, timeout_s: float
    ) -> None:
        """Somebody waits for a message, unless it is over."""
        group = self._groups[number]
        for wait in group.waits:
            if (wait.worker, wait.question) == (worker, asked) and wait.timer is None:
                self._limit(group, wait, timeout_s)

    def _limit(self, group: Group, wait: Wait, timeout_s: float) -> None:
        wait.timeout_s = timeout_s
        if timeout_s < math.inf:
            wait.timer = self._cluster.runtime.call_later(
                timeout_s, lambda: self._late(group, wait)
            )

    def _note(self, group: Group, call: Call) -> None:
        """Raises FoundError for what does not go together, unless the run is to go on."""
        try:
            group.ledger.note(call)
        except MismatchError as error:
            self._findings.note("mismatch", str(error))
        self._miss(group)

    def _leave(self, worker: NativeWorker, question: int, number: int, rank: int) -> None:
        self._groups[number].ledger.left.add(self._groups[number].ranks[rank])
        self._miss(self._groups[number])
        self._left(self._groups[number], rank)
        self._cluster.answer(worker, question, None)

    # -- what has come ---------------------------------------------------------------------

    def piece(self, group: Group, src: int, dst: int, piece: Piece) -> None:
        """It has come."""
        tag = piece.tag
        group.pieces.setdefault((dst, src, tag), deque()).append(piece)
        group.senders.setdefault((dst, tag), []).append(src)
        for wait in group.waits:
            if (wait.rank, wait.tag) == (dst, tag) and (src in wait.wants or ANY in wait.wants):
                self._fetch(group, wait, src if src in wait.wants else ANY)
                self._over(group, wait)
                return

    def _fetch(self, group: Group, wait: Wait, wanted: int) -> None:
        """Take what has come from ``wanted``, if anything has."""
        senders = group.senders.get((wait.rank, wait.tag), [])
        if not senders or (wanted != ANY and wanted not in senders):
            return
        src = senders[0] if wanted == ANY else wanted
        senders.remove(src)
        group.under_way.pop((wait.rank, src, wait.tag), None)
        queue = group.pieces[wait.rank, src, wait.tag]
        wait.got[src] = queue.popleft()
        if not queue:
            del group.pieces[wait.rank, src, wait.tag]
        if not senders:
            del group.senders[wait.rank, wait.tag]
        wait.wants.remove(wanted)
        if wait.tag[0] == POINT_TO_POINT:
            self._compare(
                group, wait, group.sends.pop((src, wait.rank, wait.tag, wait.got[src].at))
            )
        if wanted == ANY:
            group.send(wait.rank, src, MessageType.NOTICE, wait.tag)

    def _compare(self, group: Group, wait: Wait, sent: Call) -> None:
        """Raises FoundError for a message of another size than its receiver has room for, unless the run is to go on."""
        if sent.agreed[BYTES] != wait.call.agreed[BYTES]:
            about = f"a message of {group.ledger.of} with tag {sent.sequence}"
            text = f"{about} differs in {BYTES}: {sent}; {group.ledger.known(wait.call)}"
            self._findings.note("mismatch", text)

    def notice(self, group: Group, tag: Tag, src: int, dst: int) -> None:
        """A member learns that another one waits for what it sends."""
        for wait in group.waits:
            if (wait.rank, wait.tag) == (dst, tag) and src in wait.readers:
                group.under_way.pop((dst, src, tag), None)
                wait.readers.remove(src)
                self._over(group, wait)
                return
        group.notices[dst, src, tag] += 1

    # -- ends -----------------------------------------------------------------------------

    def _over(self, group: Group, wait: Wait) -> bool:
        if wait.wants or wait.readers:
            return False
        self._close(group, wait, None)
        self.operations += 1
        when = self._cluster.runtime.now(), False, self.operations
        self._foresee(wait, when, wait.got)
        self._cluster.answer_as_foreseen(wait.worker, wait.question)
        return True

    def _foresee(self, wait: Wait, when: When, pieces: dict[int, Piece]) -> None:
        """With what an operation will end, and when."""
        got = {
            src: (piece.payload, None if piece.content is None else piece.content.path.decode())
            for src, piece in pieces.items()
        }
        self._cluster.ahead.foresee(wait.worker, wait.question, when, (None, got), pieces)

    def _fail(self, group: Group, wait: Wait, text: str) -> None:
        self._close(group, wait, text)
        if wait.tag[0] not in NOT_NOTED:
            group.ledger.give_up(wait.tag[1], group.ranks[wait.rank])
        self._cluster.ahead.forget(wait.worker, wait.question)
        self._cluster.answer(wait.worker, wait.question, (text, {}))

    def _close(self, group: Group, wait: Wait, error: str | None) -> None:
        group.waits.remove(wait)
        tracer = wait.worker.tracer
        tracer.emit(OPERATION_ENDED, group.number, wait.rank, *named(wait.tag), error)
        if wait.timer is not None:
            wait.timer.cancel()

    def _cut_off(self, group: Group, wait: Wait, peer: int, timed_out: bool = False) -> None:
        if self.stall is None and (end := self._end_of(group, peer)):
            where = f" ({wait.call.place.partition(': ')[0]})" if wait.call.place else ""
            waited = f"{wait.worker.known_as} waits for {_awaited(group, wait, [peer])}{where}"
            self.stall = Stall("error", [f"{waited}; {end}"])
        if wait.rank in group.aborted:
            text = ABORTED
        else:
            text = _timed_out(peer) if timed_out else _closed(peer)
        self._fail(group, wait, text)

    def _end_of(self, group: Group, member: int) -> str:
        """How a member has ended, "" if it has not."""
        worker = group.members[member]
        if worker.ending or group.ranks[member] not in group.ledger.left:
            return _ended(worker) if worker.ending else ""
        return f"{worker.known_as} has left the process group"

    def _late(self, group: Group, wait: Wait) -> None:
        now_s = self._cluster.runtime.now()
        if self._stalled_s != now_s:  # what others wait for that are late, too, is told with it
            self._stalled_s = now_s
            self._stall(self._stalled())
        what = "recv" if wait.wants else "send"
        self._fail(group, wait, too_late(what, wait.timeout_s))
        self._abort(group, wait.rank)

    def _abort(self, group: Group, rank: int) -> None:
        """As gloo does with what else a member of a group waits for when an operation has run into its limit."""
        group.abort(rank)
        for wait in [each for each in group.waits if each.rank == rank]:
            self._fail(group, wait, ABORTED)

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

    def operations_open(self) -> dict[NativeWorker, list[Operation]]:
        """Those that are not over, by process."""
        found: dict[NativeWorker, list[Operation]] = {}
        for group in self._groups:
            for worker, _, _ in group.joining.values():
                missing = [each for each in range(group.size) if each not in group.joining]
                what = f"{_ranks(group, missing)} to join {group.ledger.of}"
                found.setdefault(worker, []).append(Operation(what, -1.0, []))
            for wait in group.waits:
                wanted = [*wait.wants, *wait.readers]
                if ANY in wanted:
                    wanted = [member for member in group.members if member != wait.rank]
                members = [(member, group.members[member]) for member in wanted]
                what, place = _awaited(group, wait, wanted), wait.call.place.partition(": ")[0]
                operation = Operation(what, wait.since_s, members, place)
                found.setdefault(wait.worker, []).append(operation)
        return found

    def _stalled(self) -> Stall:
        """Why an operation is not over."""
        cluster = self._cluster
        waiting = cluster.waiting(self.operations_open())
        names = {rank: each.known_as for rank, each in cluster.ranks.items()}
        hang = hang_of(wait_graph(cluster.trace.records, waiting, names=names))
        if hang is None:
            return Stall("error", [])
        return Stall("deadlock" if hang.cycle else "error", hang.lines)

    def finished(self, worker: NativeWorker) -> None:
        """A process is about to end without an error, perhaps while others wait for its part."""
        for group in self._groups:
            for rank, each in group.members.items():
                if each is worker:
                    group.ledger.left.add(group.ranks[rank])
                    self._miss(group)

    def _miss(self, group: Group) -> None:
        """Whether a member has left without a call of others."""
        if missed := group.ledger.missed():
            self._stall(Stall("mismatch", [missed]))

    def _stall(self, stall: Stall) -> None:
        self.stall = stall.after(self.stall)

    def _left(self, group: Group, rank: int) -> None:
        """What it has sent still arrives, before its end is seen."""
        for wait in [each for each in group.waits if each.rank == rank]:
            self._fail(group, wait, "the process group was destroyed on this rank")
        if not group.members[rank].vanished:
            group.connections.close(rank)

    def lost(self, group: Group, member: int, peer: int, timed_out: bool) -> None:
        """A member has learned that its connection to another one has ended."""
        group.forget(peer, member)
        for wait in [each for each in group.waits if each.rank == member]:
            if group.gone(wait) is not None:
                self._cut_off(group, wait, peer, timed_out)


def _ended(worker: NativeWorker) -> str:
    return f"{worker.known_as} has ended: {worker.ending}"


def _ranks(group: Group, members: list[int]) -> str:
    return " and ".join(f"rank {group.ranks[member]}" for member in members)


def _awaited(group: Group, wait: Wait, wanted: list[int]) -> str:
    """What an operation waits for."""
    kind, tag = named(wait.tag)
    ranks = _ranks(group, wanted)
    if kind != POINT_TO_POINT:
        return f"{ranks} to call {code(kind)}" + (
            "" if group.is_default else f" in {group.ledger.of}"
        )
    what = f"a message of {ranks}" if wait.wants else f"{ranks} to receive"
    return f"{what} with tag {tag}"


def _timed_out(rank: int) -> str:
    return f"writev [rank {rank} of the process group]: Connection timed out"


def _closed(rank: int) -> str:
    return (
        f"Connection closed by peer (rank {rank} of the process group). This is typically caused by a "
        "remote worker crashing. Check the logs of the remote worker before reporting an error."
    )
