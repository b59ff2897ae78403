"""Process groups of a script on the engine ``torch``: what sim/stock/group_guest.py asks of the coordinator."""

from __future__ import annotations

from functools import partial
from typing import Any

from squall.model.events.hang import hang_of
from squall.model.events.run_parts import Stall
from squall.model.events.waiting import wait_graph
from squall.sim.scripts.backends import Backend
from squall.sim.scripts.call import Call
from squall.sim.scripts.collective_steps import Moves
from squall.sim.scripts.collectives import never_formed
from squall.sim.scripts.findings import Findings
from squall.sim.scripts.group import ProcessGroup, Wait, When
from squall.sim.scripts.groups import Groups
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.memory_file import LentFile
from squall.sim.stock.packed import size_of
from squall.sim.stock.waits import Operation
from squall.sim.stock.worker import NativeWorker
from squall.sim.world.algorithms import Choice
from squall.sim.world.pieces import POINT_TO_POINT, Connections, Part, Piece, Tag
from squall.sim.world.primitives import SimTimer

#: what gloo says of the addresses of a group that has ended
_GONE = (
    "Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc] timed out connecting: "
    "SO_ERROR: Connection refused: the store has what members of an earlier process group have written"
)


class NativeGroups(Groups[LentFile]):
    """Of all processes."""

    def __init__(
        self,
        cluster: NativeCluster,
        findings: Findings,
        backend: Backend,
        choice: Choice | None = None,
    ) -> None:
        """``choice``: of the algorithms by whose steps collectives move; None: they go straight to each member."""
        moves = None if choice is None else Moves[LentFile](cluster.runtime, choice)
        super().__init__(cluster.runtime, findings.note, self._who_waits, backend, moves)
        self._cluster = cluster
        self._findings = findings
        #: by group: members before all have come
        self._joining: list[dict[int, tuple[NativeWorker, int, SimTimer]]] = []
        for word in ("new", "join", "do", "wait", "leave"):
            cluster.answers[f"group {word}"] = getattr(self, f"_{word}")
        cluster.on_gone.append(self._end)

    def last_call(self, rank: int, ranks: tuple[int, ...], kinds: tuple[str, ...]) -> str:
        """What ``rank`` has last called of collectives of these ``kinds`` in groups of these ``ranks``; "" if it
        has not."""
        calls: list[tuple[float, str]] = [(0.0, "")]
        for group in self.groups:
            members = [self._cluster.host.rank(each) for each in group.members.values()]
            if members == [*ranks]:
                last = group.ledger.last
                for call in (last[rank, kind] for kind in kinds if (rank, kind) in last):
                    about = f"collective {call.sequence} of {group.ledger.of}, {call}"
                    calls.append((call.at_s, about))
        return max(calls)[1]

    # -- questions ------------------------------------------------------------------------

    def _new(self, worker: NativeWorker, question: int, size: int) -> None:
        number = len(self.groups)
        self.groups.append(ProcessGroup(self, number, size))
        self._joining.append({})
        self._cluster.answer(worker, question, number)

    def _join(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        number, rank, ranks, place, made, timeout_s = rest
        group, joining = self.groups[number], self._joining[number]
        if not group.made:
            group.is_made_of(ranks, made)
        known = self._cluster.host.rank(worker)
        who = worker.name if known is None else f"rank {known}"
        self.made(group, who, ranks, place)
        if rank in joining or rank in group.members:
            # Its members have written to that store before, where nobody answers any more (pytorch#55967).
            self._cluster.answer(worker, question, RuntimeError(_GONE))
            return

        def late() -> None:
            come = [group.ranks[each] for each in sorted(joining)]
            there = f"ranks {come} of {group.size} have come to {group.ledger.of}"
            self.stalls(Stall("error", [there, *self._cluster.waits()]))
            del joining[rank]
            error = never_formed(timeout_s, len(joining) + 1, group.size)
            self._cluster.answer(worker, question, error)

        timer = self._cluster.runtime.call_later(timeout_s, late)
        joining[rank] = (worker, question, timer)
        if len(joining) == len(group.ranks) and group.is_of_same_members:
            come, self._joining[number] = joining, {}
            group.members = {member: come[member][0] for member in sorted(come)}
            self._connect(group)
            for member in group.members:
                each, asked, limit = come[member]
                limit.cancel()
                self._cluster.answer(each, asked, None)

    def _connect(self, group: ProcessGroup[LentFile]) -> None:
        """All members have come."""
        cluster, members = self._cluster, group.members
        for member, worker in members.items():
            cluster.host.joined(worker, member, group.size)
        known = [cluster.host.rank(worker) for worker in members.values()]
        # Of some the rank in the RPC group may be another one's in the first process group.
        is_clear = None not in known and len({*known}) == group.size
        places = {at: rank for at, rank in enumerate(known) if rank is not None and is_clear}
        places = places or {member: member for member in members}
        store = cluster.network.store(f"process group {group.name}")
        group.connections = Connections(cluster.network, store, group, places)
        for member, worker in members.items():
            with cluster.on_behalf_of(worker):
                group.connections.open(member)
        group.connections.opened()
        cluster.host.begin()

    def _do(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        number, rank, tag, agreed, parts, place, names, batch, *last = rest
        pieces, wants, tells, readers, timeout_s = last
        group = self.groups[number]
        files = {
            lent: None if lent is None else LentFile(worker.process.pid, *lent)
            for lent in {lent for _, lent in pieces.values()}
        }
        gives, takes = parts or ((), ())
        kind = ("send" if pieces else "recv") if tag[0] == POINT_TO_POINT else tag[0]
        now_s = self._cluster.runtime.now()
        call = Call(
            group.ranks[rank], rank, kind, tag[1], agreed, place, now_s, gives, takes, names
        )
        wait: Wait[LentFile] = Wait(
            worker, question, rank, tag, wants, readers, timeout_s, call,
            partial(self._answer, worker, question), batch,
        )  # fmt: skip
        given = {
            dst: Part(data, files[lent], None if self.moves is None else size_of(data))
            for dst, (data, lent) in pieces.items()
        }
        self.do(group, wait, given, tells)

    def _wait(
        self, worker: NativeWorker, question: int, number: int, asked: int, timeout_s: float
    ) -> None:
        self.limit(self.groups[number], worker, asked, timeout_s)

    def _leave(self, worker: NativeWorker, question: int, number: int, rank: int) -> None:
        self.leaves(self.groups[number], rank)
        self.left(self.groups[number], rank)
        self._cluster.answer(worker, question, None)

    # -- answers --------------------------------------------------------------------------

    def all_called(self, group: ProcessGroup[LentFile], tag: Tag) -> None:
        for wait in group.waits:
            if wait.tag == tag and (end := group.certain_end(wait)) is not None:
                self._foresee(wait.worker, wait.question, *end)

    def _foresee(
        self, worker: NativeWorker, question: int, when: When, pieces: dict[int, Piece[LentFile]]
    ) -> None:
        """With what an operation will end, and when."""
        got = {
            src: (piece.payload, None if piece.content is None else piece.content.path.decode())
            for src, piece in pieces.items()
        }
        self._cluster.ahead.foresee(worker, question, when, (None, got), pieces)

    def _answer(
        self, worker: NativeWorker, question: int, error: str | None, got: dict[int, Any]
    ) -> None:
        if error is None:
            when = self.runtime.now(), False, self.operations
            self._foresee(worker, question, when, got)
            self._cluster.answer_as_foreseen(worker, question)
            return
        self._cluster.ahead.forget(worker, question)
        self._cluster.answer(worker, question, (error, {}))

    # -- ends -----------------------------------------------------------------------------

    def ending(self, worker: NativeWorker) -> str:
        return worker.ending

    def _end(self, worker: NativeWorker) -> None:
        """A process has ended."""
        for joining in self._joining:
            for rank, (each, _, timer) in list(joining.items()):
                if each is worker:
                    timer.cancel()
                    del joining[rank]
        self.gone(worker)

    def operations_open(self) -> dict[NativeWorker, list[Operation]]:
        """Those that are not over, by process."""
        found: dict[NativeWorker, list[Operation]] = {}
        for group, joining in zip(self.groups, self._joining, strict=True):
            for worker, _, _ in joining.values():
                missing = [each for each in range(group.size) if each not in joining]
                what = f"{group.told(missing)} to join {group.ledger.of}"
                found.setdefault(worker, []).append(Operation(what, -1.0, []))
            for wait in group.waits:
                wanted = group.wanted(wait)
                members = [(member, group.members[member]) for member in wanted]
                what, place = group.awaited(wait, wanted), wait.call.place.partition(": ")[0]
                operation = Operation(what, wait.since_s, members, place)
                found.setdefault(wait.worker, []).append(operation)
        return found

    def _who_waits(self) -> Stall:
        """Why an operation is not over."""
        cluster = self._cluster
        waiting = cluster.waiting(self.operations_open())
        names = {rank: each.known_as for rank, each in cluster.ranks.items()}
        hang = hang_of(wait_graph(cluster.trace.records, waiting, names=names))
        if hang is None:
            return Stall("error", [])
        return Stall("deadlock" if hang.cycle else "error", hang.lines)
