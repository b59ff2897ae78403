"""NetworkX views: of autograd graphs, of the messages that join them, of who waits for whom.

What the engine finds by its own traversal (dependency counts, the end of a pass) is found here
again by other means, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, cast

from squall.model.one_process.joint_graph import RECV_NAME, Node
from squall.real import tracing
from squall.real.tracing import EventType

if TYPE_CHECKING:
    import networkx as nx


class TraceEvent(Protocol):
    """An event of a finished run."""

    @property
    def worker(self) -> int: ...
    @property
    def type(self) -> EventType: ...
    @property
    def values(self) -> tuple[Any, ...]: ...


def is_recv(node: Node) -> bool:
    """Whether this is the end of a message, at which one worker's part of the graph ends."""
    return bool(node.name() == RECV_NAME)


# -- autograd graphs, from live nodes ---------------------------------------------------------


def autograd_graph(
    starts: Iterable[Node], *, ends: Callable[[Node], bool] = is_recv
) -> nx.MultiDiGraph:
    """Everything reachable from ``starts`` by ``next_functions``, edges in the direction of
    gradients; nodes where ``ends`` holds are not followed.

    Starts are autograd nodes or anything with ``next_functions`` and ``name()``: the root and
    all send functions of a context give the graph that one worker's pass covers. ``ends=never``
    gives the joint graph of all workers, where an observer has joined them. Nodes carry
    ``name``; edges carry ``input``, the position at which the gradient arrives.
    """
    import networkx as nx

    graph = nx.MultiDiGraph()
    queue: list[Node] = []
    for node in starts:
        if node not in graph:
            graph.add_node(node, name=node.name())
            queue.append(node)
    for node in queue:  # grows while it is walked
        if ends(node):
            continue
        for following, position in node.next_functions:
            if following is None:
                continue
            if following not in graph:
                graph.add_node(following, name=following.name())
                queue.append(following)
            graph.add_edge(node, following, input=position)
    return graph


def never(node: Node) -> bool:
    """No node ends the graph."""
    return False


def dependency_counts(graph: nx.MultiDiGraph) -> dict[Node, int]:
    """How many gradients each node waits for: its edges that come in, parallel ones counted."""
    return dict(graph.in_degree())


def needed(graph: nx.MultiDiGraph, outputs: Callable[[Node], bool]) -> dict[Node, None]:
    """The nodes from which some node with ``outputs(node)`` can be reached, those included."""
    found: dict[Node, None] = {node: None for node in graph if outputs(node)}
    queue = list(found)
    for node in queue:  # grows while it is walked
        for before in graph.predecessors(node):
            if before not in found:
                found[before] = None
                queue.append(before)
    return {node: None for node in graph if node in found}


def find_cycle(graph: nx.Graph) -> list[Any]:
    """The nodes of one cycle in order, or [] if the graph is acyclic."""
    import networkx as nx

    try:
        return [edge[0] for edge in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        return []


# -- passes, from the events of a run -----------------------------------------------------------


def engine_counts(events: Iterable[TraceEvent]) -> list[tuple[int, int, dict[int, int]]]:
    """For each pass on each worker: worker, context, {number of node: dependency count}."""
    found = []
    for event in events:
        if event.type is tracing.DEPENDENCIES_COMPUTED:
            context, nodes, _ = event.values
            found.append((event.worker, context, {number: count for number, _, count, _ in nodes}))
    return found


def message_graph(events: Iterable[TraceEvent], context: int) -> nx.MultiDiGraph:
    """Which workers gradients of ``context`` travel between: one edge an autograd message.

    An edge goes from the worker with the recv function to the worker with the send function,
    its key is the message id. A message whose other end was never attached (lost, or under
    way at the end of the run) has the edge attribute ``complete=False``.
    """
    import networkx as nx

    graph = nx.MultiDiGraph()
    for event in events:
        if event.type is tracing.SEND_ATTACHED and event.values[0] == context:
            _, message, to, tensors = event.values
            sender, receiver, complete = event.worker, to, False
        elif event.type is tracing.RECV_ATTACHED and event.values[0] == context:
            _, message, sender, tensors = event.values
            receiver, complete = event.worker, True
        else:
            continue
        known = graph.get_edge_data(receiver, sender, message)
        graph.add_edge(
            receiver,
            sender,
            message,
            tensors=tensors,
            # A recv function is attached after the send function, as the message comes later.
            complete=complete and known is not None,
        )
    return graph


def unanswered(events: Iterable[TraceEvent], context: int) -> list[tuple[int, int]]:
    """(worker, message) of each send function of ``context`` that no gradient ever reached.

    A worker's pass waits for all of its send functions: here is what a pass that hangs is
    waiting for.
    """
    waiting: dict[tuple[int, int], None] = {}
    for event in events:
        if event.type is tracing.SEND_ATTACHED and event.values[0] == context:
            waiting[event.worker, event.values[1]] = None
        elif (
            event.type is tracing.GRADIENTS_RECEIVED or event.type is tracing.SEND_DETACHED
        ) and event.values[0] == context:
            waiting.pop((event.worker, event.values[1]), None)
    return list(waiting)


# -- who waits for whom -------------------------------------------------------------------------


def wait_for_graph(
    waits: Iterable[tuple[Hashable, object, Hashable | None]],
) -> nx.MultiDiGraph:
    """The graph of (task, what it waits for, the task that holds it, or None if nobody does)."""
    import networkx as nx

    graph = nx.MultiDiGraph()
    for task, what, holder in waits:
        graph.add_node(task)
        if holder is None:
            graph.nodes[task].setdefault("waits_for", []).append(str(what))
        else:
            graph.add_edge(task, holder, what=str(what))
    return graph


def render_wait_for(graph: nx.MultiDiGraph) -> str:
    """The graph in words: one line a wait, and the cycle, if there is one, at the end."""
    lines = []
    for task in graph:
        for _, holder, what in graph.out_edges(task, data="what"):
            lines.append(f"{task} waits for {what}, held by {holder}")
        for what in cast("list[str]", graph.nodes[task].get("waits_for", [])):
            lines.append(f"{task} waits for {what}, which nobody holds")
    cycle = find_cycle(graph)
    if cycle:
        lines.append("a cycle: " + " -> ".join(str(task) for task in [*cycle, cycle[0]]))
    return "\n".join(lines)
