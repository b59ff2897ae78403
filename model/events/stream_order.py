"""What streams of a device did, and which accesses to memory nothing puts in order.

A run on a device tells of its kernels with the memory that each reads and writes, of events that
are recorded and waited for, and of the host's waiting. What must come before what is a graph:
an entry of a stream follows the one before it; a wait follows the record of its event; whatever is
queued after the host has waited follows what it has waited for. Two accesses to one block of
memory, one of them a write, with no path between them are a race: it takes no luck to see it.

The host is taken for one thread: what one task has waited for, all others may rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import networkx as nx

#: a stream: index of its device, its number there
StreamId = tuple[int, int]
Node = int


class StreamEvent(NamedTuple):
    """A kernel, the record of an event, a stream's wait for one, or the host's wait for an event
    or, without one, for all of a stream."""

    kind: Literal["kernel", "record", "wait", "host"]
    stream: StreamId
    name: str = ""
    #: ids of the blocks of memory; one that is freed is written to
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    event: int = -1
    worker: int = -1
    #: file, line and function of the code that asked for it
    where: str = ""

    def __str__(self) -> str:
        device, number = self.stream
        return (
            f"{self.name} on stream {number} of device {device}, worker {self.worker}, {self.where}"
        )


class Race(NamedTuple):
    """Two accesses to a block, by their numbers, of which the second is not after the first."""

    block: int
    first: int
    second: int


def predecessors(events: Sequence[StreamEvent]) -> list[tuple[int, ...]]:
    """For each event, the numbers of those that it directly follows; all are smaller than its own."""
    last: dict[StreamId, int] = {}
    recorded: dict[int, int] = {}
    host = -1
    found: list[tuple[int, ...]] = []
    for number, event in enumerate(events):
        stream = event.stream
        if event.kind == "host":
            behind = recorded.get(event.event, -1) if event.event >= 0 else last.get(stream, -1)
            found.append(tuple(before for before in (behind, host) if before >= 0))
            host = number
            continue
        before_it = last.get(stream, -1)
        follows: tuple[int, ...] = () if before_it < 0 else (before_it,)
        if host > before_it:  # else what is before it in the stream follows the host
            follows = (*follows, host)
        if event.kind == "record":
            recorded[event.event] = number
        elif event.kind == "wait" and event.event in recorded:
            follows = (*follows, recorded[event.event])
        last[stream] = number
        found.append(follows)
    return found


def order_graph(events: Sequence[StreamEvent]) -> nx.DiGraph[Node]:
    """What must come before what; a node is the number of an event."""
    import networkx as nx

    graph: nx.DiGraph[Node] = nx.DiGraph()
    graph.add_nodes_from(range(len(events)))
    for number, follows in enumerate(predecessors(events)):
        graph.add_edges_from((before, number) for before in follows)
    return graph


def races(events: Sequence[StreamEvent]) -> list[Race]:
    """All pairs of accesses that are in no order: for each, the nearest ones before it."""
    lanes: dict[StreamId, int] = {}
    for event in events:
        lanes.setdefault(event.stream, len(lanes))
    nothing = [-1] * len(lanes)
    # How far each stream is known to be done where an event begins: of every predecessor the most.
    known: list[list[int]] = []
    writer: dict[int, int] = {}
    readers: dict[int, dict[StreamId, int]] = {}
    found: list[Race] = []
    for number, (event, follows) in enumerate(zip(events, predecessors(events), strict=True)):
        clock = known[follows[0]].copy() if follows else nothing.copy()
        for before in follows[1:]:
            clock = list(map(max, clock, known[before]))
        if event.kind == "kernel":
            for block in dict.fromkeys((*event.reads, *event.writes)):
                before_it = [writer[block]] if block in writer else []
                if block in event.writes:
                    before_it += readers.get(block, {}).values()
                found += [
                    Race(block, other, number)
                    for other in before_it
                    if clock[lanes[events[other].stream]] < other
                ]
            for block in event.writes:
                writer[block] = number
                readers[block] = {}
            for block in event.reads:
                if block not in event.writes:
                    readers.setdefault(block, {})[event.stream] = number
        if event.kind != "host":
            clock[lanes[event.stream]] = number
        known.append(clock)
    return found
