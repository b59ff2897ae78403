"""A backward pass as its trace tells it: what the engine found, and what there was to find.

The second part is a walk of its own over the graph, so that whoever reads the trace can tell
whether the engine's walk was right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from squall.real import tracing
from squall.real.autograd.engine import ACCUMULATE, KINDS, OURS, RECV
from squall.real.autograd.graph_task import NEEDED
from squall.real.autograd.input_abi import input_abi

if TYPE_CHECKING:
    from squall.real.autograd.graph_task import GraphTask
    from squall.real.autograd.node import Node

_NO_MESSAGE = -1


def trace_beginning(tracer: tracing.Tracer, graph_task: GraphTask) -> None:
    """Report that a pass starts, and over which graph."""
    context_id = graph_task.context.context_id
    exec_info = graph_task.exec_info
    counts = graph_task.dependencies
    nodes = [
        (
            number,
            node.name(),
            counts.get(node, 0),
            (info := exec_info.get(node)) is NEEDED
            or not exec_info
            or (info is not None and info.should_execute()),
        )
        for node, number in graph_task.numbers.items()
    ]
    graph = describe_graph(graph_task)  # now: what comes after an event may find another one
    tracer.emit(
        tracing.PASS_STARTED,
        context_id,
        len(graph_task.graph_roots[0].next_functions),
        graph_task.keep_graph,
        graph_task.outstanding_tasks,
    )
    tracer.emit(tracing.DEPENDENCIES_COMPUTED, context_id, tuple(nodes), graph)


def trace_end(tracer: tracing.Tracer, graph_task: GraphTask, error: str | None) -> None:
    """Report that a pass is over, and what is left of it."""
    numbers = graph_task.numbers
    tracer.emit(
        tracing.PASS_ENDED,
        graph_task.context.context_id,
        error,
        graph_task.outstanding_tasks,
        tuple(numbers.get(node, -1) for node in graph_task.not_ready),
        tuple(numbers.get(node, -1) for node in graph_task.dependencies),
    )


def describe_graph(graph_task: GraphTask) -> tuple[tuple[Any, ...], ...]:
    """Every node under the root and the send functions that the context had; see
    ``DEPENDENCIES_COMPUTED``. A node that the engine did not find gets a number of its own."""
    messages: dict[Node, int] = {send: message for message, send in graph_task.sends.items()}
    numbers = dict(graph_task.numbers)
    found: dict[Node, None] = {graph_task.graph_roots[0]: None, **dict.fromkeys(messages)}
    queue = list(found)
    described = []
    for node in queue:  # grows while it is walked
        kind = KINDS[type(node)]
        edges: list[tuple[int, int] | None] = []
        message = _NO_MESSAGE
        if kind < RECV:
            for following, position in node.next_functions:
                if following is None:
                    edges.append(None)
                    continue
                if following not in found:
                    found[following] = None
                    queue.append(following)
                number = numbers.get(following)
                if number is None:
                    number = numbers[following] = len(numbers)
                edges.append((number, position))
            if kind == OURS:
                message = messages.get(node, _NO_MESSAGE)
        elif kind == RECV:
            message = node.recv.metadata.message_id
        number = numbers.setdefault(node, len(numbers))
        described.append((number, tuple(edges), _shapes(node, kind), message))
    return tuple(described)


def _shapes(node: Node, kind: int) -> tuple[tuple[int, ...], ...]:
    if kind == OURS:
        return ()
    if kind == ACCUMULATE:
        return (tuple(node.variable.shape),)
    abi = input_abi()
    if abi is not None and (shapes := abi.shapes(node)) is not None:
        return shapes
    # A list first: a generator would be resumed for each of the few there are.
    return tuple([tuple(metadata.shape) for metadata in node._input_metadata])
