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
from typing import Literal, NamedTuple

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


def order_graph(events: Sequence[StreamEvent]) -> nx.DiGraph[Node]:
    """What must come before what; a node is the number of an event."""
    graph: nx.DiGraph[Node] = nx.DiGraph()
    last: dict[StreamId, int] = {}
    recorded: dict[int, int] = {}
    host: int | None = None
    for number, event in enumerate(events):
        graph.add_node(number)
        if event.kind == "host":
            behind = recorded.get(event.event) if event.event >= 0 else last.get(event.stream)
            if behind is not None:
                graph.add_edge(behind, number)
            if host is not None:
                graph.add_edge(host, number)
            host = number
            continue
        if event.stream in last:
            graph.add_edge(last[event.stream], number)
        if host is not None:
            graph.add_edge(host, number)
        if event.kind == "record":
            recorded[event.event] = number
        elif event.kind == "wait" and event.event in recorded:
            graph.add_edge(recorded[event.event], number)
        last[event.stream] = number
    return graph


def races(events: Sequence[StreamEvent]) -> list[Race]:
    """All pairs of accesses that are in no order: for each, the nearest ones before it."""
    graph = order_graph(events)
    lanes: dict[StreamId, int] = {}
    for event in events:
        lanes.setdefault(event.stream, len(lanes))
    width = len(lanes)
    # How far each stream is known to be done where an event begins: of every predecessor the most.
    known: list[list[int]] = []
    writer: dict[int, int] = {}
    readers: dict[int, dict[StreamId, int]] = {}
    found: list[Race] = []
    for number in nx.lexicographical_topological_sort(graph):
        event = events[number]
        clock = [-1] * width
        for before in graph.predecessors(number):
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
