"""To which recv functions the send functions of a graph lead."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from squall.model.protocol.passes.leads import leads_of

NODES = 8


@given(st.sets(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1))))
def test_they_are_those_that_networkx_reaches(pairs: set[tuple[int, int]]) -> None:
    """Circles included, which a wrong engine may tell of. All nodes but the root are about a message: those
    without edges are recv functions."""
    graph = nx.DiGraph(sorted(pairs))
    graph.add_nodes_from(range(NODES))
    described = tuple(
        (n, tuple((to, 0) for to in sorted(graph[n])), None, n + 100 if n else -1)
        for n in range(NODES)
    )
    found = leads_of(described)
    ends = {n for n in range(1, NODES) if not graph[n]}
    is_circular = not nx.is_directed_acyclic_graph(graph)
    assert found.keys() == {n + 100 if n else -1 for n in range(NODES) if n == 0 or graph[n]}
    for n in range(NODES):
        reached = {each + 100 for each in nx.descendants(graph, n) & ends}
        told = found.get(n + 100 if n else -1, reached)
        assert told <= reached if is_circular else told == reached
