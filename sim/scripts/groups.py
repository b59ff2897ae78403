"""What the members of process groups send each other and wait for, on either engine.

An operation is what a member sends, and what it waits for. What it sends reaches another member when
the link between the two has carried it; what nobody waits for yet is kept until somebody does.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Generic

from squall.model.events.run_parts import Stall
from squall.real.rpc.message_type import MessageType
from squall.real.tracing import OPERATION_ENDED, OPERATION_STARTED
from squall.sim.scripts.backends import GLOO, Backend
from squall.sim.scripts.call import Call
from squall.sim.scripts.collective_steps import Moves
from squall.sim.scripts.collectives import ABORTED, BYTES, too_late, watchdog
from squall.sim.scripts.group import ANY, NOT_NOTED, C, ProcessGroup, Wait, named
from squall.sim.scripts.ledger import MismatchError
from squall.sim.world.pieces import POINT_TO_POINT, Part, Piece, Tag
from squall.sim.world.scheduler import SimRuntime

#: how long an operation may take where a script does not say it, in seconds of virtual time
DEFAULT_TIMEOUT_S = 1800.0


class Groups(Generic[C]):
    """All groups of a run. An engine lets members join and asks for operations; they are answered by
    :attr:`Wait.answer`. ``found`` is told of what is wrong, by outcome, and ``stalled`` says who waits for whom."""

    def __init__(
        self,
        runtime: SimRuntime,
        found: Callable[[str, str], object],
        stalled: Callable[[], Stall],
        backend: Backend = GLOO,
        moves: Moves[C] | None = None,
    ) -> None:
        self.runtime = runtime
        #: how the data of collectives moves, None: each member sends each other one its own
        self.moves = moves
        self._found = found
        self._stalled = stalled
        self.backend = backend
        #: as ``run.process_groups.stall``
        self.stall: Stall | None = None
        self._stalled_s = -1.0
        self.groups: list[ProcessGroup[C]] = []
        #: as ``run.process_groups.operations``
        self.operations = 0
        #: how many pieces and notices were sent
        self.sent = 0

    def made(self, group: ProcessGroup[C], who: str, ranks: list[int], place: str) -> None:
        """Somebody comes who makes it of these ranks, in that line."""
        text = f"{who} makes it of ranks {ranks or group.ranks}" + (
            f", at {place}" if place else ""
        )
        group.made.append((ranks, text))
        if not group.is_of_same_members:
            told = "; ".join(text for _, text in (group.made[0], group.made[-1]))
            self._found("mismatch", f"a process group differs in members: {told}")

    def all_called(self, group: ProcessGroup[C], tag: Tag) -> None:
        """All members have called that collective."""

    def do(
        self,
        group: ProcessGroup[C],
        wait: Wait[C],
        pieces: Mapping[int, Part[C]],
        tells: list[int],
    ) -> None:
        """Begin an operation. ``pieces``: by member, what it is sent."""
        is_message, backend = wait.tag[0] == POINT_TO_POINT, self.backend
        if is_message and backend.has_streams:
            wait.tag = POINT_TO_POINT, 0
        rank, tag, call = wait.rank, wait.tag, wait.call
        size_bytes = sum(given.size_bytes for given in pieces.values())
        wait.worker.tracer.emit(OPERATION_STARTED, group.name, rank, *named(tag), size_bytes)
        if tag[0] not in NOT_NOTED:
            self._note(group, call)
        group.waits.append(wait)
        if tag[0] not in NOT_NOTED:
            group.called[tag] += 1
        if is_message and size_bytes <= backend.eager_bytes:
            wait.readers.clear()
        if backend.has_streams and ANY in wait.wants:
            self._fail(group, wait, "Backend nccl does not support recvAnysource")
            return
        begin = partial(self._begin, group, wait, pieces, tells)
        if backend.has_streams:
            group.put_on_stream(wait, begin)
        else:
            begin()
        if wait in group.waits:
            self._limit(group, wait, wait.timeout_s)

    def _begin(
        self,
        group: ProcessGroup[C],
        wait: Wait[C],
        pieces: Mapping[int, Part[C]],
        tells: list[int],
    ) -> None:
        rank, tag, call = wait.rank, wait.tag, wait.call
        is_message = tag[0] == POINT_TO_POINT
        type = MessageType.SEND if is_message else MessageType.COLLECTIVE
        if self.moves is not None:
            if self.moves.begin(self, group, wait, pieces):
                pieces = {}
            tells = []  # a sender is told when its receiver has what it sends
        for dst, given in pieces.items():
            piece = group.send(rank, dst, type, tag, given)
            if is_message:
                group.sends[rank, dst, tag, piece.at] = group.ledger.known(call)
        for src in tells:
            group.send(rank, src, MessageType.NOTICE, tag)
        for src in [*wait.wants]:
            self._fetch(group, wait, src)
        for dst in [*wait.readers]:
            if group.notices[rank, dst, tag]:
                group.notices[rank, dst, tag] -= 1
                group.under_way.pop((rank, dst, tag), None)
                wait.readers.remove(dst)
        if group.called[tag] == group.size:
            del group.called[tag]
            self.all_called(group, tag)
        if wait not in group.waits:
            return  # what it gave was all that was missing
        if not self._over(group, wait) and (gone := group.gone(wait)) is not None:
            self._cut_off(group, wait, gone)

    def limit(self, group: ProcessGroup[C], worker: Any, question: Any, timeout_s: float) -> None:
        """Somebody waits for a message, unless it is over."""
        for wait in group.waits:
            if (wait.worker, wait.question) == (worker, question) and wait.timer is None:
                self._limit(group, wait, timeout_s)

    def _limit(self, group: ProcessGroup[C], wait: Wait[C], timeout_s: float) -> None:
        own_s = self.backend.timeout_s
        if own_s is not None and timeout_s in (DEFAULT_TIMEOUT_S, math.inf):
            timeout_s = own_s
        wait.timeout_s = timeout_s
        if timeout_s < math.inf:
            wait.timer = self.runtime.call_later(timeout_s, lambda: self._late(group, wait))

    def _note(self, group: ProcessGroup[C], call: Call) -> None:
        """What does not go together is found."""
        try:
            group.ledger.note(call)
        except MismatchError as error:
            self._found("mismatch", str(error))
        self._miss(group)

    # -- what has come ---------------------------------------------------------------------

    def piece(self, group: ProcessGroup[C], src: int, dst: int, piece: Piece[C]) -> None:
        """It has come."""
        tag = piece.tag
        if self.moves is not None and self.moves.arrived(group, tag):
            return
        group.pieces.setdefault((dst, src, tag), deque()).append(piece)
        group.senders.setdefault((dst, tag), []).append(src)
        for wait in group.waits:
            is_meant = (wait.rank, wait.tag) == (dst, tag) and not wait.held
            if is_meant and (src in wait.wants or ANY in wait.wants):
                self._fetch(group, wait, src if src in wait.wants else ANY)
                self._over(group, wait)
                return

    def _fetch(self, group: ProcessGroup[C], wait: Wait[C], wanted: int) -> None:
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
        is_message = wait.tag[0] == POINT_TO_POINT
        if is_message:
            self._compare(
                group, wait, group.sends.pop((src, wait.rank, wait.tag, wait.got[src].at))
            )
        if self.moves is not None:
            if is_message and wait.got[src].size_bytes > self.backend.eager_bytes:
                self.notice(group, wait.tag, wait.rank, src)
        elif wanted == ANY:
            group.send(wait.rank, src, MessageType.NOTICE, wait.tag)

    def _compare(self, group: ProcessGroup[C], wait: Wait[C], sent: Call) -> None:
        """A message of another size than its receiver has room for is found."""
        if sent.agreed[BYTES] != wait.call.agreed[BYTES]:
            about = f"a message of {group.ledger.of} with tag {sent.sequence}"
            text = f"{about} differs in {BYTES}: {sent}; {group.ledger.known(wait.call)}"
            self._found("mismatch", text)

    def notice(self, group: ProcessGroup[C], tag: Tag, src: int, dst: int) -> None:
        """A member learns that another one waits for what it sends."""
        for wait in group.waits:
            if (wait.rank, wait.tag) == (dst, tag) and src in wait.readers and not wait.held:
                group.under_way.pop((dst, src, tag), None)
                wait.readers.remove(src)
                self._over(group, wait)
                return
        group.notices[dst, src, tag] += 1

    # -- ends -----------------------------------------------------------------------------

    def _over(self, group: ProcessGroup[C], wait: Wait[C]) -> bool:
        if wait.wants or wait.readers:
            return False
        self._close(group, wait, None)
        self.operations += 1
        wait.answer(None, wait.got)
        group.take_off_stream(wait)
        return True

    def _fail(self, group: ProcessGroup[C], wait: Wait[C], text: str) -> None:
        self._close(group, wait, text)
        if wait.tag[0] not in NOT_NOTED:
            group.ledger.give_up(wait.tag[1], group.ranks[wait.rank])
        wait.answer(text, {})
        group.take_off_stream(wait)

    def _close(self, group: ProcessGroup[C], wait: Wait[C], error: str | None) -> None:
        group.waits.remove(wait)
        tracer = wait.worker.tracer
        tracer.emit(OPERATION_ENDED, group.name, wait.rank, *named(wait.tag), error)
        if wait.timer is not None:
            wait.timer.cancel()

    def _cut_off(
        self, group: ProcessGroup[C], wait: Wait[C], peer: int, timed_out: bool = False
    ) -> None:
        if self.stall is None and (end := self._end_of(group, peer)):
            where = f" ({wait.call.place.partition(': ')[0]})" if wait.call.place else ""
            waited = f"{wait.worker.known_as} waits for {group.awaited(wait, [peer])}{where}"
            self.stall = Stall("error", [f"{waited}; {end}"])
        if wait.rank in group.aborted:
            text = ABORTED
        else:
            text = _timed_out(peer) if timed_out else _closed(peer)
        self._fail(group, wait, text)

    def ending(self, worker: Any) -> str:
        """How a process has ended otherwise than by itself, "" if it has not."""
        raise NotImplementedError

    def _end_of(self, group: ProcessGroup[C], member: int) -> str:
        worker = group.members[member]
        if ending := self.ending(worker):
            return f"{worker.known_as} has ended: {ending}"
        has_left = group.ranks[member] in group.ledger.left
        return f"{worker.known_as} has left the process group" if has_left else ""

    def _late(self, group: ProcessGroup[C], wait: Wait[C]) -> None:
        now_s = self.runtime.now()
        if self._stalled_s != now_s:  # what others wait for that are late, too, is told with it
            self._stalled_s = now_s
            self.stalls(self._stalled())
        if self.backend.has_streams:
            text = watchdog(*named(wait.tag), wait.timeout_s)
        else:
            text = too_late("recv" if wait.wants else "send", wait.timeout_s)
        self._fail(group, wait, text)
        # As gloo does with what else a member of a group waits for.
        group.abort(wait.rank)
        for each in _waits_of(group, wait.rank):
            self._fail(group, each, ABORTED)

    def gone(self, worker: Any) -> None:
        """A process has ended, with its connections."""
        for group in self.groups:
            for rank, each in group.members.items():
                if each is worker:
                    self.left(group, rank)

    def finished(self, worker: Any) -> None:
        """A process is about to end without an error, perhaps while others wait for its part."""
        for group in self.groups:
            for rank, each in group.members.items():
                if each is worker:
                    self.leaves(group, rank)

    def leaves(self, group: ProcessGroup[C], rank: int) -> None:
        """A member is about to leave by itself."""
        group.ledger.left.add(group.ranks[rank])
        self._miss(group)

    def _miss(self, group: ProcessGroup[C]) -> None:
        """Whether a member has left without a call of others."""
        if missed := group.ledger.missed():
            self.stalls(Stall("mismatch", [missed]))

    def stalls(self, stall: Stall) -> None:
        self.stall = stall.after(self.stall)

    def left(self, group: ProcessGroup[C], rank: int) -> None:
        """What it has sent still arrives, before its end is seen."""
        for wait in _waits_of(group, rank):
            self._fail(group, wait, "the process group was destroyed on this rank")
        group.connections.close(rank)

    def lost(self, group: ProcessGroup[C], member: int, peer: int, timed_out: bool) -> None:
        """A member has learned that its connection to another one has ended."""
        group.forget(peer, member)
        for wait in _waits_of(group, member):
            if group.gone(wait) is not None:
                self._cut_off(group, wait, peer, timed_out)


def _waits_of(group: ProcessGroup[C], rank: int) -> Iterator[Wait[C]]:
    """A member's operations, those left out that are over by the time that it is their turn."""
    for wait in [*group.waits]:
        if wait.rank == rank and wait in group.waits:
            yield wait


def _timed_out(rank: int) -> str:
    return f"writev [rank {rank} of the process group]: Connection timed out"


def _closed(rank: int) -> str:
    return (
        f"Connection closed by peer (rank {rank} of the process group). This is typically caused by a "
        "remote worker crashing. Check the logs of the remote worker before reporting an error."
    )
