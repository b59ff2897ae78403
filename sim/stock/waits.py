"""Who waits for what among worker processes: what their stacks say, with what the coordinator knows of calls and of
operations of process groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from squall.model.events.names import Role, request_named, task_named
from squall.model.events.waiting import Waiting
from squall.sim.stock.stacks import Standing
from squall.sim.stock.worker import Call, NativeWorker
from squall.sim.world.stack_reading import ended_by


class Operation(NamedTuple):
    """An operation of a process group that is not over: what it waits for, and whom."""

    what: str
    since_s: float
    members: list[tuple[int, NativeWorker]]
    #: the user's line that has begun it, "" if that is not known
    place: str = ""


#: a thread of a process, or a call
_Place = tuple[NativeWorker, int]


class Waits:
    """``stacks``: those of each process that is alive."""

    def __init__(
        self,
        stacks: Mapping[NativeWorker, Sequence[Standing]],
        operations: Mapping[NativeWorker, list[Operation]],
        ranks: Mapping[int, NativeWorker],
        noted: int,
    ) -> None:
        self._stacks, self._operations, self._ranks = stacks, operations, ranks
        self._noted = noted
        #: calls that a thread is taken to wait for: which one of equal ones that is nobody knows
        self._taken: set[_Place] = set()
        self._threads: dict[_Place, Standing] = {
            (worker, each.id): each for worker, found in stacks.items() for each in found
        }
        #: of threads, as records number tasks; those know none of these
        self._numbers = {place: -2 - number for number, place in enumerate(self._threads)}

    def __iter__(self) -> Iterator[Waiting]:
        threads = [(worker, thread) for (worker, _), thread in self._threads.items()]
        threads.sort(key=lambda each: not each[1].is_main)
        # Who says which call it waits for comes before who waits for some future.
        told = sorted(threads, key=lambda each: each[1].reading.call is None)
        found = {place: self._waiting(*place) for place in told}
        return iter([found[place] for place in threads])

    def _waiting(self, worker: NativeWorker, thread: Standing) -> Waiting:
        role: Role = "main" if thread.is_main else "request" if thread.serves else "thread"
        plain = Waiting(
            self._numbers[worker, thread.id],
            task_named(
                role, worker.known_as, thread.name or "a thread of the agent", thread.serves
            ),
            worker.rank,
            -1.0,
            thread.reading.what,
            thread.reading.kind,
            took=thread.took,
            made=thread.made,
            lack=thread.reading.lack,
            role=role,
            place=thread.place,
            line=thread.line,
            noted=self._noted,
            variables=thread.variables,
        )
        operations = self._operations.get(worker, [])
        if operations and plain.kind == "thing":
            # Which one a thread waits for its line says, where that has begun it; else it is the main thread.
            own = [each for each in operations if thread.place and each.place == thread.place]
            own = own or [each for each in operations[:1] if thread.is_main]
            if own:
                return self._in_group(plain, own[0])
        if thread.reading.call is not None or plain.kind == "future":
            return self._calling(plain, worker, thread)
        return ended_by(plain, thread.reading, lambda end: self._end(worker, end))

    def _end(self, worker: NativeWorker, end: Any) -> int | str | None:
        """The thread that could end a wait of this process, or who has ended; None: a thread of nobody's."""
        if isinstance(end, int):
            return self._numbers.get((worker, end))
        other = next((each for each in self._stacks if each.name == end), None)
        main = None if other is None else self._main(other)
        return str(end) if main is None else main

    def _main(self, worker: NativeWorker) -> int | None:
        found = [each for each in self._stacks.get(worker, ()) if each.is_main]
        return self._numbers[worker, found[0].id] if found else None

    def _calling(self, plain: Waiting, worker: NativeWorker, thread: Standing) -> Waiting:
        """It waits for a call, or for a future, which may be that of the only call that is open."""
        calls = [each for each in worker.pending.values() if (worker, each.id) not in self._taken]
        if thread.reading.call is not None:
            function, to = thread.reading.call
            calls = [each for each in calls if each.function in (function, "")]
            calls = [each for each in calls if to in (str(each.dst), self._name(each))] or calls
        kinds = {(each.function, each.dst) for each in calls}
        if not calls or (thread.reading.call is None and len(kinds) > 1):
            return plain
        call = min(calls, key=lambda each: each.sent_at_s)
        self._taken.add((worker, call.id))
        function = call.function
        what = f"{request_named(call.type, function)} on {self._name(call)}"
        plain = plain._replace(what=what, since_s=call.sent_at_s, kind="call", lack="")
        callee = self._ranks.get(call.dst)
        if callee is not None and (threads := self._serving(callee)):
            serving = [each for each in threads if each.serves == function]
            place = self._queue(call, callee).index((call.sent_at_s, worker.rank, call.id))
            if place < len(serving):
                return plain._replace(ends=(self._numbers[callee, serving[place].id],))
            if callee.requests > len(threads):
                ends = tuple(self._numbers[callee, each.id] for each in threads)
                return plain._replace(ends=ends, full=callee.known_as)
        elif callee is not None and callee.requests:
            lack = "no thread there works on it, and nobody completes its future"
            plain = plain._replace(lack=lack)
        return plain._replace(call=(worker.rank, call.id))

    def _serving(self, worker: NativeWorker) -> list[Standing]:
        """Its threads that run functions of calls."""
        return [each for each in self._stacks.get(worker, ()) if each.serves and not each.name]

    def _queue(self, call: Call, callee: NativeWorker) -> list[tuple[float, int, int]]:
        """All calls of that function that wait there, the first to be sent first."""
        return sorted(
            (each.sent_at_s, worker.rank, each.id)
            for worker in self._stacks
            for each in worker.pending.values()
            if each.dst == call.dst and each.function == call.function
        )

    def _name(self, call: Call) -> str:
        callee = self._ranks.get(call.dst)
        return f"worker {call.dst}" if callee is None else callee.known_as

    def _in_group(self, plain: Waiting, operation: Operation) -> Waiting:
        """Its main thread waits in an operation of a process group."""
        ends = [self._main(other) for _, other in operation.members]
        gone = [
            f"{other.known_as} has ended: {other.ending}"
            for _, other in operation.members
            if not other.alive
        ]
        return plain._replace(
            what=operation.what,
            since_s=operation.since_s,
            kind="gone" if gone else "collective",
            ends=tuple(end for end in ends if end is not None),
            lack=" and ".join(gone),
        )
