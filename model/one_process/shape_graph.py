"""The autograd graph under some roots as plain data: what must come out of all workers' graphs.

Two graphs are the same if they are walked together from their roots: edges have an order, so
that there is only one way to match them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from squall.model.one_process.joint_graph import ACCUMULATE_NAME

Edge = tuple[int, int] | None
Shapes = tuple[tuple[int, ...], ...]


class GraphNode(NamedTuple):
    """A node: its name, the shapes of its inputs, and (number, input) of what it leads to."""

    name: str
    shapes: Shapes
    edges: tuple[Edge, ...]


class Graph(NamedTuple):
    """Where gradients start, and the nodes by number, breadth first."""

    roots: tuple[Edge, ...]
    nodes: tuple[GraphNode, ...]


def graph_of(roots: Sequence[Tensor]) -> Graph:
    """The graph of one process under ``roots``, each of which has a ``grad_fn``."""
    numbers: dict[Any, int] = {}
    starts = []
    for root in roots:
        edge = get_gradient_edge(root)
        starts.append((numbers.setdefault(edge.node, len(numbers)), edge.output_nr))
    queue = list(numbers)
    nodes = []
    for node in queue:  # grows while it is walked
        edges: list[Edge] = []
        for following, position in node.next_functions:
            if following is None:
                edges.append(None)
                continue
            number = numbers.get(following)
            if number is None:
                number = numbers[following] = len(numbers)
                queue.append(following)
            edges.append((number, position))
        nodes.append(GraphNode(node.name(), _shapes(node), tuple(edges)))
    return Graph(tuple(starts), tuple(nodes))


def _shapes(node: Any) -> Shapes:
    if node.name() == ACCUMULATE_NAME:
        return (tuple(node.variable.shape),)
    return tuple(tuple(metadata.shape) for metadata in node._input_metadata)
