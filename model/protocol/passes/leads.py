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
    reached: dict[int, int] = {}
    found = []
    for number, out, name in shape:
        if number == _ROOT or (name >= 0 and out):
            found.append((name, _names(_reached(number, edges, recvs, reached))))
    return tuple(found)


def _reached(
    start: int, edges: dict[int, list[int]], recvs: dict[int, int], known: dict[int, int]
) -> int:
    """The names of the recv functions that a node leads to, as the bits of a number. ``known``: those of
    the nodes that have been asked for."""
    stack = [start]
    opened: set[int] = set()
    while stack:
        number = stack[-1]
        if number not in known and number not in opened:
            # An engine that is wrong may tell of a circle: nothing is opened twice.
            opened.add(number)
            stack += [each for each in edges[number] if each not in known and each not in opened]
            continue
        stack.pop()
        if number not in known:
            bits = 1 << recvs[number] if number in recvs else 0
            for each in edges[number]:
                bits |= known.get(each, 0)
            known[number] = bits
    return known[start]


def _names(bits: int) -> tuple[int, ...]:
    return tuple(name for name, bit in enumerate(reversed(f"{bits:b}")) if bit == "1")
