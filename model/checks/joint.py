"""The graphs of all workers, stitched together, against the graph of one process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from string import digits
from typing import NamedTuple

from squall.model.events.passes import REFUSED, Edge, Node, PassPart, joint_passes
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.model.one_process.shape_graph import Graph

#: a node of the joint graph: worker, number on that worker
Place = tuple[int, int]


class MissingSendError(LookupError):
    """A recv function whose send function is on no worker that takes part."""


class Stitched:
    """The joint graph of one pass: edges lead past send and recv functions."""

    def __init__(self, parts: dict[int, PassPart]) -> None:
        self.parts = parts
        self._names: dict[Place, str] = {
            (worker, number): name
            for worker, part in parts.items()
            for number, name, _, _ in part.nodes
        }
        #: by message: where its send function is
        self._sends: dict[int, Place] = {
            message: (worker, number)
            for worker, part in parts.items()
            for message, number in part.graph.sends.items()
        }

    def node(self, place: Place) -> Node:
        return self.parts[place[0]].graph.nodes[place[1]]

    def name(self, place: Place) -> str:
        return self._names.get(place, "a node that was not found")

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
            worker = sent[0]
            edges = self.node(sent).edges
            if position >= len(edges):
                raise MissingSendError(f"tensor {position} of message {message}")
            edge = edges[position]
        return None

    def find_cycle(self) -> list[Place]:
        """The nodes of a cycle in the graph of everything that was recorded, or []."""
        #: by worker: an offset added to its node numbers, so that no two workers share a number
        first: dict[int, int] = {}
        size = 0
        for worker, part in self.parts.items():
            first[worker] = size
            size += max(part.graph.nodes, default=0) + 1
        edges: list[tuple[int, int]] = []
        for worker, part in self.parts.items():
            base = first[worker]
            edges += [(base + number, base + to) for number, to in part.graph.pairs]
            for number, message in part.graph.recvs.items():
                sent = self._sends.get(message)
                if sent is not None:
                    edges.append((base + number, first[sent[0]] + sent[1]))
        if _is_acyclic(size, edges):
            return []
        places = {
            first[worker] + number: (worker, number)
            for worker, part in self.parts.items()
            for number in part.graph.nodes
        }
        import networkx as nx  # which few runs need

        whole = nx.DiGraph()
        whole.add_nodes_from(places)
        whole.add_edges_from(edges)
        return [places[edge[0]] for edge in nx.find_cycle(whole)]


def _is_acyclic(size: int, edges: list[tuple[int, int]]) -> bool:
    """Take away what nothing leads to until nothing is left, or a cycle and what it leads to."""
    following: list[list[int]] = [[] for _ in range(size)]
    waiting = [0] * size
    for here, there in edges:
        following[here].append(there)
        waiting[there] += 1
    ready = [node for node in range(size) if not waiting[node]]
    for node in ready:  # grows while it is walked
        for after in following[node]:
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    return len(ready) == size


class _Difference(NamedTuple):
    what: str
    expected: str
    seen: str


@named("joint_graph", engines=PORT_ONLY, work="both")
def JOINT_GRAPH(run: Run) -> Iterator[Violation]:  # noqa: N802
    """The graphs of all workers, with each recv function joined to its send function, are
    acyclic; and what the roots of a pass lead to is, with these pairs taken out, the autograd
    graph of the same computation in one process: the same operations with inputs of the same
    shapes, joined by the same edges.
    """
    graphs = _reference_graphs(run)
    #: by the graphs of the workers: what the last pass over them was found to be right with
    seen: dict[tuple[tuple[int, int], ...], object] = {}
    for root, parts in joint_passes(run):
        if root.computed < 0:
            continue
        parts = {worker: part for worker, part in parts.items() if part.computed >= 0}
        key = tuple([(worker, id(part.graph)) for worker, part in parts.items()])
        reference = graphs.get(root.started)
        right = (reference, [part.nodes for part in parts.values()])
        if seen.get(key) == right:
            continue
        events = tuple(part.computed for part in parts.values())
        joint = Stitched(parts)
        if key not in seen:
            seen[key] = None
            cycle = joint.find_cycle()
            if cycle:
                names = " -> ".join(f"{joint.name(p)} of worker {p[0]}" for p in cycle)
                yield run.violation("joint_graph", "a cycle", "no cycle", names, *events)
                continue
        if reference is None or root.error is not None or root.ended < 0:
            continue
        difference = _compare(joint, root, reference)
        if difference is None:
            seen[key] = right
        else:
            yield run.violation("joint_graph", *difference, *events)


def _reference_graphs(run: Run) -> dict[int, Graph]:
    """The graph that each pass must have, by the number of the event that starts it."""
    if run.outcomes.expected is None or run.outcomes.got is None:
        return {}
    roots: dict[int, list[PassPart]] = {}
    for root, _ in joint_passes(run):
        roots.setdefault(root.context, []).append(root)
    found: dict[int, Graph] = {}
    for key, outcome in run.outcomes.got.steps.items():
        expected = run.outcomes.expected.steps.get(key)
        if expected is None or outcome.context < 0:
            continue
        if expected.failed and outcome.first_error is not None:
            continue  # the errors are planted in the first attempt only
        graphs = [
            graph
            for number, graph in enumerate(expected.graphs)
            if REFUSED not in outcome.failed.get(number, "")  # it has not begun
        ]
        for root, graph in zip(roots.get(outcome.context, []), graphs, strict=False):
            found[root.started] = graph
    return found


def _compare(joint: Stitched, root: PassPart, reference: Graph) -> _Difference | None:
    """Walk both graphs from their roots at once."""
    matched: dict[Place, int] = {}
    taken: set[int] = set()
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
                if position != input or not _same_operation(name, expected.name):
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
                taken.add(number)
                queue.append((place[0], node.edges, expected.edges, name))
    except MissingSendError as missing:
        return _Difference("a recv function without its send function", str(missing), "none")
    return None


_VIEWS = {"ReshapeAliasBackward0": "ViewBackward0"}


def _same_operation(name: str, other: str) -> bool:
    """Whether names differ by the number of an overload at most: a factor may be a number or a
    tensor. A view that is a reshaped tensor has a name of its own on some devices."""
    name, other = (_VIEWS.get(each, each) for each in (name, other))
    return name == other or name.rstrip(digits) == other.rstrip(digits)


RANK = 20
PROPERTIES: tuple[Property, ...] = (JOINT_GRAPH,)
