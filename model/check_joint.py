"""The graphs of all workers, stitched together, against the graph of one process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

import networkx as nx

from model.passes import Edge, Node, Part, joint_passes
from model.run import Property, Run, Violation, named
from model.shape_graph import Graph

#: a node of the joint graph: worker, number on that worker
Place = tuple[int, int]


class MissingSendError(LookupError):
    """A recv function whose send function is on no worker that takes part."""


class Stitched:
    """The joint graph of one pass: edges lead past send and recv functions."""

    def __init__(self, parts: dict[int, Part]) -> None:
        self.parts = parts
        self._sends: dict[int, tuple[int, Node]] = {
            message: (worker, part.graph.nodes[number])
            for worker, part in parts.items()
            for message, number in part.graph.sends.items()
        }

    def node(self, place: Place) -> Node:
        return self.parts[place[0]].graph.nodes[place[1]]

    def name(self, place: Place) -> str:
        found = self.parts[place[0]].found.get(place[1])
        return "a node that was not found" if found is None else found.name

    def follow(self, worker: int, edge: Edge) -> tuple[Place, int] | None:
        """Where an edge leads, on whichever worker that is. Raises MissingSendError."""
        while edge is not None:
            number, position = edge
            message = self.parts[worker].graph.recvs.get(number)
            if message is None:
                return (worker, number), position
            sent = self._sends.get(message)
            if sent is None:
                raise MissingSendError(f"message {message}")
            worker, send = sent
            if position >= len(send.edges):
                raise MissingSendError(f"tensor {position} of message {message}")
            edge = send.edges[position]
        return None

    def find_cycle(self) -> list[Place]:
        """The nodes of a cycle in the graph of everything that was recorded, or []."""
        # A send function stands under its message, as the recv function's successor.
        following: dict[Place, list[Place]] = {}
        for worker, part in self.parts.items():
            for number, node in part.graph.nodes.items():
                here = (worker, number if node.message < 0 or not node.edges else -1 - node.message)
                led = following[here] = [(worker, edge[0]) for edge in node.edges if edge]
                if not node.edges and node.message in self._sends:
                    led.append((self._sends[node.message][0], -1 - node.message))
        return _find_cycle(following)


def _find_cycle(following: dict[Place, list[Place]]) -> list[Place]:
    """Take away what nothing leads to until nothing is left, or a cycle and what it leads to."""
    waiting = dict.fromkeys(following, 0)
    for places in following.values():
        for place in places:
            waiting[place] += 1
    ready = [place for place, count in waiting.items() if not count]
    for place in ready:  # grows while it is walked
        for after in following[place]:
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    if len(ready) == len(following):
        return []
    return [edge[0] for edge in nx.find_cycle(nx.DiGraph(following))]


class _Difference(NamedTuple):
    what: str
    expected: str
    seen: str


@named("joint_graph")
def JOINT_GRAPH(run: Run) -> Iterator[Violation]:  # noqa: N802
    """The graphs of all workers, with each recv function joined to its send function, are
    acyclic; and what the roots of a pass lead to is, with these pairs taken out, the autograd
    graph of the same computation in one process: the same operations with inputs of the same
    shapes, joined by the same edges.
    """
    graphs = _reference_graphs(run)
    seen: dict[tuple[object, ...], bool] = {}
    for root, parts in joint_passes(run):
        if root.computed < 0:
            continue
        parts = {worker: part for worker, part in parts.items() if part.computed >= 0}
        key = tuple((worker, part.described) for worker, part in parts.items())
        events = tuple(part.computed for part in parts.values())
        joint = Stitched(parts)
        if key not in seen:
            seen[key] = True
            cycle = joint.find_cycle()
            if cycle:
                names = " -> ".join(f"{joint.name(p)} of worker {p[0]}" for p in cycle)
                yield run.violation("joint_graph", "a cycle", "no cycle", names, *events)
                continue
        reference = graphs.get(root.started)
        if reference is None or root.error is not None or root.ended < 0:
            continue
        difference = _compare(joint, root, reference)
        if difference is not None:
            yield run.violation("joint_graph", *difference, *events)


def _reference_graphs(run: Run) -> dict[int, Graph]:
    """By the event that starts a pass: the graph that it is to have."""
    if run.expected is None or run.got is None:
        return {}
    roots: dict[int, list[Part]] = {}
    for root, _ in joint_passes(run):
        roots.setdefault(root.context, []).append(root)
    found: dict[int, Graph] = {}
    for key, outcome in run.got.steps.items():
        expected = run.expected.steps.get(key)
        if expected is None or outcome.context < 0:
            continue
        for root, graph in zip(roots.get(outcome.context, []), expected.graphs, strict=False):
            found[root.started] = graph
    return found


def _compare(joint: Stitched, root: Part, reference: Graph) -> _Difference | None:
    """Walk both graphs from their roots at once."""
    matched: dict[Place, int] = {}
    taken: dict[int, Place] = {}
    queue = [(root.worker, root.graph.nodes[0].edges, reference.roots, "the roots")]
    try:
        for worker, edges, others, where in queue:  # grows while it is walked
            for i, (edge, other) in enumerate(zip_longest(edges, others)):
                led = joint.follow(worker, edge)
                if led is None or other is None:
                    if led is not None or other is not None:
                        words = f"edge {i} from {where}", "no such edge"
                        one, two = words if led is None else reversed(words)
                        return _Difference("edges", one, two)
                    continue
                place, position = led
                number, input = other
                expected = reference.nodes[number]
                name = joint.name(place)
                node = joint.node(place)
                if (_operation(name), position) != (_operation(expected.name), input):
                    return _Difference(
                        "operation",
                        f"edge {i} from {where} to input {input} of {expected.name}",
                        f"to input {position} of {name} on worker {place[0]}",
                    )
                if place in matched or number in taken:
                    if matched.get(place) != number:
                        return _Difference(
                            "sharing",
                            f"{expected.name} once in both graphs",
                            f"edge {i} from {where} leads to another {name}",
                        )
                    continue
                if node.shapes != expected.shapes:
                    return _Difference("shapes", f"{expected.shapes} into {name}", str(node.shapes))
                matched[place] = number
                taken[number] = place
                queue.append((place[0], node.edges, expected.edges, name))
    except MissingSendError as missing:
        return _Difference("a recv function without its send function", str(missing), "none")
    return None


def _operation(name: str) -> str:
    """The name without the number of an overload: a factor may be a number or a tensor."""
    return name.rstrip("0123456789")


PROPERTIES: tuple[Property, ...] = (JOINT_GRAPH,)
