"""What the graph of a worker comes to for the model: to which recv functions its send functions lead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from squall.model.protocol.passes.number_set import NONE, Numbers

#: the number of a node, and which of its inputs; None: to no node
Edge = tuple[int, int] | None
#: a node: its number, edges, shapes of its inputs, and message (-1: it has none)
Node = tuple[int, tuple[Edge, ...], Any, int]

#: the root's number in each graph
_ROOT = 0
#: stands for the root among pairs
ROOT = -1


class Leads:
    """To which recv functions the send functions of a graph lead, all by the numbers of their pairs.

    ``described``: as in ``DEPENDENCIES_COMPUTED``. ``pair_of`` gives the pair of a message, None if
    it is of none.
    """

    def __init__(self, described: Iterable[Node], pair_of: Callable[[int], int | None]) -> None:
        edges: dict[int, list[int]] = {}
        pairs: dict[int, int] = {}
        starts = []
        for number, out, _, message in described:
            edges[number] = [edge[0] for edge in out if edge is not None]
            if message >= 0 and (pair := pair_of(message)) is not None:
                pairs[number] = pair
            if number == _ROOT or (message >= 0 and out):
                starts.append(number)
        #: by pair of a send function, and by ROOT: the pairs that gradients go on to from there
        self.of: dict[int, Numbers] = {ROOT: NONE}
        #: by pair of a recv function: those of the send functions that lead to it
        self.to: dict[int, Numbers] = {}
        if not pairs:
            return
        order = _postorder(starts, edges)
        after: dict[int, int] = {}
        for number in order:
            bits = 1 << pairs[number] if number in pairs and not edges[number] else 0
            for each in edges[number]:
                bits = _joined(bits, after.get(each, 0)) if bits else after.get(each, 0)
            after[number] = bits
        for number in starts:
            if number == _ROOT:
                self.of[ROOT] = Numbers(bits=after[number])
            elif number in pairs:
                self.of[pairs[number]] = Numbers(bits=after[number])
        before: dict[int, int] = {}
        for number in reversed(order):
            bits = before.get(number, 0)
            if number in pairs and not edges[number]:
                self.to[pairs[number]] = Numbers(bits=bits)
            elif number in pairs:
                bits |= 1 << pairs[number]
            for each in edges[number]:
                before[each] = _joined(before[each], bits) if each in before else bits


def _postorder(starts: Iterable[int], edges: dict[int, list[int]]) -> list[int]:
    """All nodes that these lead to, each after those that it leads to itself."""
    order = []
    opened: set[int] = set()
    stack = list(starts)
    while stack:
        number = stack.pop()
        if number < 0:  # the complement of a node: all that it leads to is there
            order.append(~number)
        elif number not in opened:  # an engine that is wrong may tell of a circle
            opened.add(number)
            stack.append(~number)
            stack += edges[number]
    return order


def _joined(bits: int, more: int) -> int:
    """The union of two sets; one of them if that is it, so that nodes share what they lead to."""
    union = bits | more
    if union == bits:
        return bits
    return more if union == more else union
