"""One backward pass as a graph over all workers, and how it went, moment by moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from squall.model.events.passes import PassPart, joint_passes
from squall.sim.pictures.recording import Recording

if TYPE_CHECKING:
    import networkx as nx

#: worker, number of the node in that worker's part
Place = tuple[int, int]


class Pass(NamedTuple):
    """A pass: its number in the run, the context, its root's part and all parts by worker."""

    number: int
    context: int
    root: PassPart
    parts: dict[int, PassPart]

    @property
    def first(self) -> int:
        return self.root.started

    @property
    def last(self) -> int:
        """The number of the last event of any part."""
        events = [self.first]
        for part in self.parts.values():
            events += [part.ended, part.computed]
            events += [event for event, _ in part.executed[-1:]]
        return max(events)


def passes(run: Recording) -> list[Pass]:
    """The passes that users started, in order, those that found no graph left out."""
    return [
        Pass(number, root.context, root, parts)
        for number, (root, parts) in enumerate(joint_passes(run.run))
        if root.computed >= 0
    ]


def nodes_of(one: Pass) -> int:
    """How many nodes :func:`joint_graph` has. The engine counts a root for each worker; only the
    worker where the pass began has one that is used."""
    return sum(
        len(part.found) - (0 in part.found and not part.roots) for part in one.parts.values()
    )


def joint_graph(one: Pass) -> nx.MultiDiGraph:
    """The autograd graph of all workers that took part, in the direction of gradients.

    A node is (worker, number). It has ``name``, ``worker``, ``number``, ``dependencies``,
    ``needed``, ``message`` (of a send or recv function, else -1) and ``role`` (``root``,
    ``send``, ``recv``, ``leaf`` or ``node``). An edge has ``input`` and ``crosses``: it is a
    message from a recv function to the send function on the other worker.
    """
    import networkx as nx

    graph: nx.MultiDiGraph = nx.MultiDiGraph()
    sends: dict[int, Place] = {}
    for worker, part in one.parts.items():
        for message, number in part.graph.sends.items():
            sends[message] = (worker, number)
        for number, found in part.found.items():
            if number == 0 and not part.roots:
                continue  # this worker only received gradients: no pass began at its root
            node = part.graph.nodes.get(number)
            role = "node"
            if number == 0:
                role = "root"
            elif number in part.graph.recvs:
                role = "recv"
            elif node is not None and node.message >= 0:
                role = "send"
            elif number in part.graph.outputs:
                role = "leaf"
            graph.add_node(
                (worker, number),
                name=found.name,
                worker=worker,
                number=number,
                dependencies=found.dependencies,
                needed=found.needed,
                message=-1 if node is None else node.message,
                role=role,
            )
    for worker, part in one.parts.items():
        for number, node in part.graph.nodes.items():
            for edge in node.edges:
                if edge is not None and (worker, number) in graph and (worker, edge[0]) in graph:
                    graph.add_edge(
                        (worker, number), (worker, edge[0]), input=edge[1], crosses=False
                    )
            if number in part.graph.recvs:
                other = sends.get(part.graph.recvs[number])
                if other is not None and other in graph and (worker, number) in graph:
                    graph.add_edge((worker, number), other, input=0, crosses=True)
    return graph


@dataclass
class Progress:
    """How far a pass is after some event: gradients each node still waits for, and what ran.

    ``waits`` counts for a send function the message it waits for.
    """

    waits: dict[Place, int]
    ran: dict[Place, int] = field(default_factory=dict)


def moments(one: Pass) -> list[tuple[int, str, Place]]:
    """What moves a pass on: (event, ``ran`` or ``fed``, node), in order."""
    found: list[tuple[int, str, Place]] = []
    for worker, part in one.parts.items():
        found += [(event, "ran", (worker, number)) for event, number in part.executed]
        for event, message in part.received:
            number = part.graph.sends.get(message)
            if number is not None:
                found.append((event, "fed", (worker, number)))
    return sorted(found)


def start(graph: nx.MultiDiGraph) -> Progress:
    """A pass before anything has run."""
    waits = {
        place: 1 if data["role"] == "send" else int(data["dependencies"])
        for place, data in graph.nodes(data=True)
    }
    return Progress(waits)


def advance(progress: Progress, graph: nx.MultiDiGraph, moment: tuple[int, str, Place]) -> None:
    """Take one of :func:`moments` into ``progress``."""
    event, what, place = moment
    if place not in progress.waits:
        return
    if what == "fed":
        progress.waits[place] = 0
        return
    progress.ran[place] = event
    for _, following, crosses in graph.out_edges(place, data="crosses"):
        if not crosses and progress.waits[following] > 0:
            progress.waits[following] -= 1


def layout(graph: nx.MultiDiGraph) -> dict[Place, tuple[float, float]]:
    """Where nodes are: each worker a band, gradients flow from left to right.

    The column of a node is the length of the longest path to it from anywhere; in a band,
    nodes of one column lie below each other. A cycle, which no pass may have, is cut open.
    """
    column = _columns(graph)
    bands = sorted({data["worker"] for _, data in graph.nodes(data=True)})
    rows: dict[Place, float] = {}
    top = 0.0
    for worker in bands:
        columns: dict[int, list[Place]] = {}
        for place in graph:
            if place[0] == worker:
                columns.setdefault(column[place], []).append(place)
        height = max((len(places) for places in columns.values()), default=1)
        for places in columns.values():
            places.sort(key=lambda p: _pull(graph, p, rows))
            for index, place in enumerate(places):
                rows[place] = top + (height - len(places)) / 2 + index
        top += height + 0.8
    return {place: (float(column[place]), rows[place]) for place in graph}


def _pull(graph: nx.MultiDiGraph, place: Place, rows: dict[Place, float]) -> tuple[float, int]:
    near = [rows[other] for other in graph.predecessors(place) if other in rows]
    return (sum(near) / len(near) if near else float(place[1]), place[1])


def _columns(graph: nx.MultiDiGraph) -> dict[Place, int]:
    import networkx as nx

    plain = nx.DiGraph(graph)
    while not nx.is_directed_acyclic_graph(plain):
        plain.remove_edge(*nx.find_cycle(plain)[-1][:2])
    column: dict[Place, int] = {}
    for place in nx.topological_sort(plain):
        before = [column[other] + 1 for other in plain.predecessors(place)]
        column[place] = max(before, default=0)
    return column
