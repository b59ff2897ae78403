"""NetworkX views of autograd graphs and of waits."""

from __future__ import annotations

from typing import Any, NamedTuple

import networkx as nx
import torch

from squall.model.events.graph import (
    autograd_graph,
    dependency_counts,
    engine_counts,
    find_cycle,
    message_graph,
    needed,
    never,
    render_wait_for,
    unanswered,
    wait_for_graph,
)
from squall.real import tracing
from squall.real.tracing import EventType


class Event(NamedTuple):
    worker: int
    type: EventType
    values: tuple[Any, ...]


def test_a_node_waits_for_every_edge_that_comes_in() -> None:
    a = torch.ones(2, requires_grad=True)
    doubled = a * 2
    loss = (doubled * doubled + doubled).sum()
    graph = autograd_graph([loss.grad_fn])
    counts = {graph.nodes[node]["name"]: n for node, n in dependency_counts(graph).items()}
    # doubled is used three times: twice by the product, once by the sum
    assert counts == {
        "SumBackward0": 0,
        "AddBackward0": 1,
        "MulBackward0": 3,
        "torch::autograd::AccumulateGrad": 1,
    }
    assert find_cycle(graph) == []
    assert nx.is_directed_acyclic_graph(graph)


def test_only_what_leads_to_an_output_is_needed() -> None:
    a = torch.ones(2, requires_grad=True)
    b = torch.ones(2, requires_grad=True)
    left, right = a * 2, b * 3
    graph = autograd_graph([(left + right).sum().grad_fn], ends=never)
    to_a = needed(graph, lambda node: getattr(node, "variable", None) is a)
    assert left.grad_fn in to_a
    assert right.grad_fn not in to_a
    assert len(to_a) == 4


TWO_WORKERS = [
    Event(0, tracing.SEND_ATTACHED, (5, 1, 1, 1)),
    Event(1, tracing.RECV_ATTACHED, (5, 1, 0, 1)),
    Event(1, tracing.SEND_ATTACHED, (5, 2, 0, 1)),
    Event(0, tracing.RECV_ATTACHED, (5, 2, 1, 1)),
    Event(0, tracing.SEND_ATTACHED, (5, 3, 1, 2)),
    Event(0, tracing.SEND_ATTACHED, (6, 4, 1, 1)),
    Event(
        0,
        tracing.DEPENDENCIES_COMPUTED,
        (5, ((0, "GraphRoot", 0, True), (1, "Mul", 2, True)), ()),
    ),
    Event(1, tracing.GRADIENTS_RECEIVED, (5, 2, True)),
    Event(0, tracing.GRADIENTS_RECEIVED, (5, 1, False)),
]


def test_messages_join_the_graphs_of_workers() -> None:
    graph = message_graph(TWO_WORKERS, 5)
    assert [(a, b, m, d["complete"]) for a, b, m, d in graph.edges(keys=True, data=True)] == [
        (1, 0, 1, True),
        (1, 0, 3, False),
        (0, 1, 2, True),
    ]
    assert engine_counts(TWO_WORKERS) == [(0, 5, {0: 0, 1: 2})]


def test_a_send_function_that_was_never_fed_is_found() -> None:
    assert unanswered(TWO_WORKERS, 5) == [(0, 3)]
    assert unanswered(TWO_WORKERS, 6) == [(0, 4)]


def test_a_circle_of_waits_is_told_in_words() -> None:
    graph = wait_for_graph(
        [
            ("alice", "the left fork", "bob"),
            ("bob", "the right fork", "alice"),
            ("carol", "a reply to message 3", None),
        ]
    )
    assert find_cycle(graph) == ["alice", "bob"]
    assert render_wait_for(graph).splitlines() == [
        "alice waits for the left fork, held by bob",
        "bob waits for the right fork, held by alice",
        "carol waits for a reply to message 3, which nobody holds",
        "a cycle: alice -> bob -> alice",
    ]
