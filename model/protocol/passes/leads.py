"""What the graph of a worker comes to for the model: to which recv functions its send functions lead."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

#: the number of a node, and which of its inputs; None: to no node
Edge = tuple[int, int] | None

#: the root's number in each graph
_ROOT = 0

Messages = frozenset[int]


def leads_of(described: tuple[tuple[int, tuple[Edge, ...], Any, int], ...]) -> dict[int, Messages]:
    """By message of a send function, and by -1 for the root: the messages of the recv functions that
    gradients go on to from there. ``described``: as in ``DEPENDENCIES_COMPUTED``."""
    messages = {number: message for number, _, _, message in described if message >= 0}
    names = {number: at for at, number in enumerate(messages)}
    shape = tuple([(number, edges, names.get(number, -1)) for number, edges, _, _ in described])
    known = list(messages.values())
    return {
        (known[at] if at >= 0 else -1): frozenset([known[each] for each in reached])
        for at, reached in _leads(shape)
    }


# One scenario's graphs are like those of another, but for the numbers of messages.
@lru_cache(maxsize=4096)
def _leads(
    shape: tuple[tuple[int, tuple[Edge, ...], int], ...],
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    edges = {number: [edge[0] for edge in out if edge is not None] for number, out, _ in shape}
    recvs = {number: name for number, out, name in shape if name >= 0 and not out}
    found = []
    for number, out, name in shape:
        if number != _ROOT and (name < 0 or not out):
            continue
        queue = [number]
        seen = {number}
        for each in queue:  # grows while it is walked
            for following in edges[each]:
                if following not in seen:
                    seen.add(following)
                    queue.append(following)
        reached = tuple(recvs[each] for each in queue if each in recvs)
        found.append((name, reached))
    return tuple(found)
