"""Why an operation of a process group could not end: who waits for whom when its limit is reached.

Every operation has a limit, half an hour by default, so that a deadlock of groups ends in an error of
one of its members, which names nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import networkx as nx

from squall.model.events.run import Stall
from squall.sim.stock.worker import NativeWorker


class Waiting(NamedTuple):
    """An operation that is not over: which, and the processes that it waits for (None: one that is not
    there)."""

    what: str
    since_s: float
    members: list[tuple[int, NativeWorker]]


def stall(
    worker: NativeWorker,
    waits: Mapping[NativeWorker, list[Waiting]],
    stacks: Callable[[NativeWorker], Iterable[str]],
) -> Stall:
    """Of the operations of ``worker``, and of all that it waits for, directly or not; ``stacks``: a line for
    each thread of a process."""
    graph: nx.DiGraph[NativeWorker] = nx.DiGraph()
    graph.add_node(worker)
    for each, operations in waits.items():
        graph.add_edges_from((each, other) for one in operations for _, other in one.members)
    involved = nx.descendants(graph, worker) | {worker}
    circle = _circle(graph.subgraph(involved))
    lines = []
    if circle:
        lines.append(f"{' -> '.join(each.name for each in [*circle, circle[0]])}: in a circle")
    for each in sorted(involved, key=lambda each: each.name):
        operations = waits.get(each, [])
        for one in operations:
            who = ", ".join(f"{member}" for member, _ in one.members)
            lines.append(
                f"{each.name} waits in {one.what} for rank {who} since t={one.since_s:.6f} s"
            )
        if not operations:
            lines.append(f"{each.name} is in no operation" if each.alive else ended(each))
        lines += [f"{each.name}: {line}" for line in (stacks(each) if each.alive else ())]
    return Stall("deadlock" if circle else "error", lines)


def ended(worker: NativeWorker) -> str:
    """A line for a process that has ended."""
    return f"{worker.name} has ended: {worker.ending}"


def _circle(graph: nx.DiGraph[NativeWorker]) -> list[NativeWorker]:
    """In the order in which each waits for the next; [] if there is none."""
    try:
        return [edge[0] for edge in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        return []
