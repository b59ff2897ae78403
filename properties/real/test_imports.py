"""The modules of real/ stand one above the other."""

import networkx as nx

from squall.properties.support.import_graph import circles, import_graph


def test_no_circle_of_imports_neither_in_functions_nor_for_types():
    graph = import_graph("squall.real")
    assert graph.has_edge("squall.real.worker", "squall.real.process")
    assert graph.has_edge("squall.real.rpc.py_rref", "squall.real.rpc.calls")
    assert circles(graph) == [] and nx.is_directed_acyclic_graph(graph)


def test_parts_know_of_the_process_and_not_of_the_worker():
    graph = import_graph("squall.real")
    parts = nx.descendants(graph, "squall.real.worker")
    assert {f"squall.real.rpc.{part}" for part in ("agent", "rref_context")} <= parts
    assert not nx.descendants(graph, "squall.real.process") & {
        "squall.real.rpc.agent",
        "squall.real.autograd.container",
    }
