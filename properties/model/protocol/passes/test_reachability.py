"""To which recv functions the send functions of a graph lead."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from squall.model.protocol.passes.reachability import ROOT, Leads

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
    leads = Leads(described, lambda message: message - 100)
    ends = {n for n in range(1, NODES) if not graph[n]}
    is_circular = not nx.is_directed_acyclic_graph(graph)
    assert leads.of.keys() == {n or ROOT for n in range(NODES) if n == 0 or graph[n]}
    for n, told in leads.of.items():
        reached = nx.descendants(graph, max(n, 0)) & ends
        assert set(told) <= reached if is_circular else set(told) == reached
    for n, told in leads.to.items():
        leading = nx.ancestors(graph, n) - ends - {0}
        assert set(told) <= leading if is_circular else set(told) == leading
