"""Where the time of a run's ranks goes: computing, data on its way, waiting for others; and which chain of these decided
when a step ended.

A rank computes when time passes in an operator that has a duration, or in a sleep on its main thread
(``run.computing.spent``). Else it waits for that operation of its process groups which ends next: for
the member whose call let the data of that operation move at last, and after this call for the data. What is under way
while a rank computes costs it nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from squall.model.events.run import Run
from squall.model.events.run_parts import Stepped
from squall.real import tracing

#: what a message between two ranks is called, where collectives have their names
MESSAGE = "message"
_SEND = "send"
#: of a group, kind and number or tag: what belongs to one operation
About = tuple[object, ...]
State = Literal["compute", "waiting", "moving", "idle"]
#: a part of a second in which nothing is told apart
_INSTANT_S = 1e-12


class Segment(NamedTuple):
    """From ``start_s`` to ``end_s`` a rank is in one state. ``kind``: of the operation, or the operator that it computes;
    ``by``: for whom it waits, or whose data moves; -1: nobody else's. ``end``: the event that ends the operation."""

    rank: int
    start_s: float
    end_s: float
    state: State
    kind: str = ""
    by: int = -1
    end: int = -1

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


class Hop(NamedTuple):
    """A part of a critical path: what a rank did, or, with ``src``, what came to it from there."""

    rank: int
    start_s: float
    end_s: float
    state: State
    kind: str
    src: int = -1

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


class StepTime(NamedTuple):
    """``number``: from 1 on, 0 for a whole run in which no optimizer made a step; by rank, from when to when."""

    number: int
    start_s: dict[int, float]
    end_s: dict[int, float]

    @property
    def seconds(self) -> float:
        """Of the rank that it takes longest."""
        return max(self.end_s[rank] - self.start_s[rank] for rank in self.end_s)


class _Message(NamedTuple):
    src: int
    dst: int
    sent: int
    arrived: int


class _Operation(NamedTuple):
    rank: int
    about: About
    started: int
    ended: int

    @property
    def kind(self) -> str:
        return MESSAGE if self.about[1] == _SEND else str(self.about[1])


@dataclass(frozen=True)
class GroupTime:
    """Of a run whose script's links have costs."""

    run: Run

    @cached_property
    def ranks(self) -> list[int]:
        """Those that took part in a group, or computed."""
        computed = {each.worker for each in self.run.computing.spent}
        found = {each.rank for each in self._operations} | computed
        return sorted(rank for rank in found if rank >= 0)

    @cached_property
    def steps(self) -> list[StepTime]:
        """From one step of the optimizer to the next; steps with no operation of a group between them are one. The first
        begins with the run. Of a run without any: all of it."""
        ends = {rank: self._step_ends(rank) for rank in self.ranks}
        count = min(map(len, ends.values()), default=0)
        if not count:
            end_s = {
                rank: segments[-1].end_s for rank, segments in self.segments.items() if segments
            }
            return [StepTime(0, dict.fromkeys(end_s, 0.0), end_s)] if end_s else []
        return [
            StepTime(
                number + 1,
                {rank: each[number - 1] if number else 0.0 for rank, each in ends.items()},
                {rank: each[number] for rank, each in ends.items()},
            )
            for number in range(count)
        ]

    @cached_property
    def segments(self) -> dict[int, list[Segment]]:
        """By rank, in order, without gaps from 0 to the end of its last operation, computation or step."""
        return {rank: list(self._segments_of(rank)) for rank in self.ranks}

    def segments_in(self, step: StepTime) -> Iterator[Segment]:
        """Of all ranks, cut at the step's ends."""
        for rank, start_s in step.start_s.items():
            for each in self.segments[rank]:
                begins_s, ends_s = max(each.start_s, start_s), min(each.end_s, step.end_s[rank])
                if ends_s - begins_s > _INSTANT_S:
                    yield each._replace(start_s=begins_s, end_s=ends_s)

    def critical_path(self, step: StepTime) -> list[Hop]:
        """What decided when the last rank came to the step's end, in order: each hop begins when the one before it
        ends. It begins where the rank on which it then is has begun the step."""
        rank = max(step.end_s, key=lambda each: (step.end_s[each], -each))
        at_s, hops = step.end_s[rank], list[Hop]()
        while at_s - step.start_s[rank] > _INSTANT_S:
            segment = self._segment_at(rank, at_s)
            if segment is None:
                break
            if segment.end < 0:
                start_s = max(segment.start_s, step.start_s[rank])
                hops.append(Hop(rank, start_s, at_s, segment.state, segment.kind))
                at_s = start_s
                continue
            chain, origin, call_s = self._chain(self._by_end[segment.end])
            if call_s >= at_s:  # it was there before: nothing of another rank came between
                chain, origin, call_s = [], rank, segment.start_s
            hops += self._hops(segment, chain, call_s, at_s)
            rank, at_s = origin, call_s
        return hops[::-1]

    # -- steps ----------------------------------------------------------------------------

    def _step_ends(self, rank: int) -> list[float]:
        calls = [each.started for each in self._ended_by.get(rank, [])]
        ends: list[Stepped] = []
        for each in self.run.computing.optimizer_steps:
            if each.worker == rank:
                if ends and not any(ends[-1].event <= call < each.event for call in calls):
                    ends.pop()
                ends.append(each)
        return [each.at_s for each in ends]

    # -- segments -------------------------------------------------------------------------

    def _segments_of(self, rank: int) -> Iterator[Segment]:
        ended = self._ended_by.get(rank, [])
        at_s = 0.0
        for start_s, end_s, what in self._computed(rank):
            yield from self._gap(rank, at_s, start_s, ended)
            yield Segment(rank, start_s, end_s, "compute", what)
            at_s = end_s
        stepped = [each.at_s for each in self.run.computing.optimizer_steps if each.worker == rank]
        last_s = max([*(self._time_s(each.ended) for each in ended), *stepped, 0.0])
        yield from self._gap(rank, at_s, last_s, ended)

    def _computed(self, rank: int) -> Iterator[tuple[float, float, str]]:
        """In order, each from where those before it end: several threads may compute at the same time."""
        at_s = 0.0
        spent = sorted(each for each in self.run.computing.spent if each.worker == rank)
        for _, start_s, end_s, what in spent:
            if end_s > at_s:
                yield max(start_s, at_s), end_s, what
                at_s = end_s

    def _gap(
        self, rank: int, start_s: float, end_s: float, operations: Sequence[_Operation]
    ) -> Iterator[Segment]:
        """A rank does not compute from then to then."""
        at_s = start_s
        first = bisect_left(operations, start_s, key=lambda each: self._time_s(each.ended))
        for each in operations[first:]:
            over_s = self._time_s(each.ended)
            if over_s > end_s:
                break
            if over_s - at_s <= _INSTANT_S:
                continue
            begun_s = self._time_s(each.started)
            if begun_s - at_s > _INSTANT_S:
                yield Segment(rank, at_s, begun_s, "idle")
                at_s = begun_s
            if over_s - at_s > _INSTANT_S:
                yield from self._waited(each, at_s, over_s)
            at_s = over_s
        if end_s - at_s > _INSTANT_S:
            yield Segment(rank, at_s, end_s, "idle")

    def _waited(self, operation: _Operation, start_s: float, end_s: float) -> Iterator[Segment]:
        chain, origin, call_s = self._chain(operation)
        rank, kind = operation.rank, operation.kind
        moves_s = min(max(call_s, start_s), end_s) if origin != rank else start_s
        if moves_s - start_s > _INSTANT_S:
            yield Segment(rank, start_s, moves_s, "waiting", kind, origin, operation.ended)
        if end_s - moves_s > _INSTANT_S:
            src = next((each.src for each in chain if each.dst == rank), -1)
            yield Segment(rank, moves_s, end_s, "moving", kind, src, operation.ended)

    def _segment_at(self, rank: int, at_s: float) -> Segment | None:
        """The one that a rank is in just before."""
        found = self.segments[rank]
        number = bisect_left(found, at_s - _INSTANT_S, key=lambda each: each.end_s)
        return found[number] if number < len(found) else None

    # -- what let an operation end --------------------------------------------------------

    def _hops(
        self, segment: Segment, chain: Sequence[_Message], call_s: float, at_s: float
    ) -> Iterator[Hop]:
        """The last first."""
        for each in chain:
            sent_s = self._time_s(each.sent)
            if at_s - sent_s > _INSTANT_S:
                yield Hop(each.dst, sent_s, at_s, "moving", segment.kind, each.src)
                at_s = sent_s
        if at_s - call_s > _INSTANT_S:
            yield Hop(segment.rank, call_s, at_s, segment.state, segment.kind)

    def _chain(self, operation: _Operation) -> tuple[list[_Message], int, float]:
        """The messages that led to the end of an operation, the last first, and by whose call they began to move, and
        when."""
        chain: list[_Message] = []
        while True:
            event = self._before(operation.about, operation.ended)
            while event in self._arrivals:
                chain.append(self._arrivals[event])
                event = self._let_send(operation.about, chain[-1])
            event = operation.started if event < 0 else event
            rank, call_s = int(self.run.records[event][1]), self._time_s(event)
            before = self._held_by(rank, chain[-1].sent, call_s) if chain else None
            if before is None:
                return chain, rank, call_s
            operation = before

    def _held_by(self, rank: int, sent: int, call_s: float) -> _Operation | None:
        """The operation whose end let another one of that rank begin, called before, where one follows the other."""
        sent_s = self._time_s(sent)
        if sent_s - call_s <= _INSTANT_S:
            return None
        ended = self._ended_by[rank]
        at = bisect_left(ended, sent, key=lambda each: each.ended) - 1
        is_it = at >= 0 and sent_s - self._time_s(ended[at].ended) <= _INSTANT_S
        return ended[at] if is_it else None

    def _before(self, about: About, event: int) -> int:
        """The last call or arrival of an operation before an event, -1 if there is none."""
        known = self._of.get(about, [])
        at = bisect_left(known, event) - 1
        return known[at] if at >= 0 else -1

    def _let_send(self, about: About, message: _Message) -> int:
        """What happened last before a message was sent that it may have waited for: its sender's call, an arrival there,
        or, where none is as late, that of the message before it on its link."""
        known, same_link = self._of.get(about, []), -1
        for at in range(bisect_left(known, message.sent) - 1, -1, -1):
            event, other = known[at], self._arrivals.get(known[at])
            if same_link >= 0 and self._time_s(event) < self._time_s(same_link):
                break
            if other is None:
                if self.run.records[event][1] == message.src:
                    return event
            elif about[1] == _SEND:
                continue
            elif other.dst == message.src:
                return event
            elif same_link < 0 and (other.src, other.dst) == (message.src, message.dst):
                same_link = event
        return same_link

    # -- from the events ------------------------------------------------------------------

    @cached_property
    def _operations(self) -> list[_Operation]:
        """In the order of their ends."""
        under_way: dict[tuple[object, ...], list[int]] = {}
        found = []
        for event in self.run.of(tracing.OPERATION_STARTED, tracing.OPERATION_ENDED):
            _, rank, _, type, (group, member, kind, number, _) = self.run.records[event]
            started = under_way.setdefault((group, member, kind, number), [])
            if type is tracing.OPERATION_STARTED:
                started.append(event)
            elif started:
                found.append(_Operation(rank, (group, kind, number), started.pop(0), event))
        return found

    @cached_property
    def _ended_by(self) -> dict[int, list[_Operation]]:
        """By rank, in the order of their ends."""
        found: dict[int, list[_Operation]] = {}
        for each in self._operations:
            found.setdefault(each.rank, []).append(each)
        return found

    @cached_property
    def _by_end(self) -> dict[int, _Operation]:
        return {each.ended: each for each in self._operations}

    @cached_property
    def _arrivals(self) -> dict[int, _Message]:
        """Messages of groups, by the event of their arrival."""
        sent: dict[int, int] = {}
        found = {}
        for event in self.run.of(tracing.MESSAGE_SENT, tracing.MESSAGE_DELIVERED):
            _, _, _, type, (number, src, dst, *_) = self.run.records[event]
            if type is tracing.MESSAGE_SENT:
                sent[number] = event
            elif number in sent:
                found[event] = _Message(src, dst, sent[number], event)
        return found

    @cached_property
    def _of(self) -> dict[About, list[int]]:
        """By operation: its calls and arrivals, in order."""
        found: dict[About, list[int]] = {}
        for event in self.run.of(tracing.OPERATION_STARTED):
            group, _, kind, number, _ = self.run.records[event][4]
            found.setdefault((group, kind, number), []).append(event)
        for event, message in self._arrivals.items():
            about = self.run.records[message.sent][4][-1]
            if about:
                found.setdefault(tuple(about), []).append(event)
        return {about: sorted(events) for about, events in found.items()}

    def _time_s(self, event: int) -> float:
        return float(self.run.records[event][0])
