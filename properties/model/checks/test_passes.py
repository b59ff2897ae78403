"""The checks of passes share work between equal graphs; no difference is hidden by that."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squall.model.checks.passes import count
from squall.model.checks.registry import check, named_property
from squall.model.events.digest import Record
from squall.model.events.passes import Graph, Node, joint_passes, passes_of
from squall.model.events.run import Run
from squall.real.tracing import DEPENDENCIES_COMPUTED
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw

_SIZE = 8


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Acyclic ones of up to 8 nodes, in any number of pieces, with parallel edges."""
    size = draw(st.integers(1, _SIZE))
    ends = st.integers(0, size - 1)
    pairs = [pair for pair in draw(st.lists(st.tuples(ends, ends))) if pair[0] < pair[1]]
    numbers = draw(st.permutations(range(size)))
    pairs = [(numbers[a], numbers[b]) for a, b in pairs]
    nodes = {
        number: Node(tuple((to, 0) for a, to in pairs if a == number), (), -1)
        for number in draw(st.permutations(range(size)))
    }
    return Graph(nodes, {}, {}, dict.fromkeys(draw(st.sets(ends))), pairs)


def leads_to(graph: Graph, number: int, ends: dict[int, None]) -> bool:
    return number in ends or any(leads_to(graph, b, ends) for a, b in graph.pairs if a == number)


@given(graphs())
@settings(max_examples=300, deadline=None)
def test_counts_are_those_of_the_whole_graph(graph: Graph) -> None:
    arriving = [to for _, to in graph.pairs]
    outputs = graph.outputs or graph.nodes
    assert list(count(graph).items()) == [
        (number, (arriving.count(number), not graph.outputs or leads_to(graph, number, outputs)))
        for number in graph.nodes
    ]


@cache
def run_with_equal_passes() -> Run:
    """A correct run in which two workers each process equal graphs twice."""
    with campaign_settings():
        for seed in range(200):
            run = play(draw(seed))
            twice = [parts for parts in alike(run) if len(parts) > 1]
            ended = all(root.error is None for root, _ in joint_passes(run))
            if len(twice) > 1 and ended and not run.hangs and check(run) == []:
                return run
    pytest.fail("no scenario of 200 has two passes over the same graphs")


def alike(run: Run) -> Iterator[list[int]]:
    """The events that tell of passes over one graph, for each graph with more than a root."""
    found: dict[int, list[int]] = {}
    for part in passes_of(run).parts:
        if part.computed >= 0 and len(part.nodes) > 1:
            found.setdefault(id(part.graph), []).append(part.computed)
    yield from found.values()


def with_changed_nodes(run: Run, n: int, change: dict[int, dict[int, Any]]) -> Run:
    """The run with event ``n`` changed: ``change`` has, by number of the node, new values by
    field."""
    time_s, worker, task, type, (context, nodes, graph) = run.records[n]
    assert type is DEPENDENCIES_COMPUTED
    told = tuple(
        tuple(change.get(node[0], {}).get(field, value) for field, value in enumerate(node))
        for node in nodes
    )
    records: list[Record] = list(run.records)
    records[n] = (time_s, worker, task, type, (context, told, graph))
    return Run(records, run.program, ended_s=run.ended_s, outcomes=run.outcomes)


def broken(run: Run) -> set[tuple[str, str]]:
    return {(violation.property, violation.what) for violation in check(run)}


#: the fields of a node as the event has them
_NAME, _COUNT, _NEEDED = 1, 2, 3


def test_every_pass_is_counted_though_its_graph_is_known() -> None:
    run = run_with_equal_passes()
    for events in alike(run):
        for n in events:
            number, _, dependencies, needed = run.records[n][4][1][-1]
            more = with_changed_nodes(run, n, {number: {_COUNT: dependencies + 1}})
            assert ("dependencies", "dependency count") in broken(more)
            other = with_changed_nodes(run, n, {number: {_NEEDED: not needed}})
            assert ("dependencies", "nodes to execute") in broken(other)


def test_every_pass_is_compared_though_its_graph_is_known() -> None:
    run = run_with_equal_passes()
    joint_graph = named_property("joint_graph")
    assert list(joint_graph.check(run)) == []
    compared = 0
    for events in alike(run):
        for n in events:
            for number, _, _, message in run.records[n][4][2]:
                if number > 0 and message < 0:
                    other = with_changed_nodes(run, n, {number: {_NAME: "OtherBackward0"}})
                    whats = {violation.what for violation in joint_graph.check(other)}
                    assert "operation" in whats
                    compared += 1
    assert compared > 2


def test_a_root_without_edges_is_not_run_whatever_is_said_of_it() -> None:
    run = run_with_equal_passes()
    part = next(part for part in passes_of(run).parts if not part.roots)
    needed = part.found[0].needed
    assert broken(with_changed_nodes(run, part.computed, {0: {_NEEDED: not needed}})) == set()
    counted = with_changed_nodes(run, part.computed, {0: {_COUNT: 1}})
    assert broken(counted) == {("dependencies", "dependency count")}
