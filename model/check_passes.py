"""What must hold for each worker's part of a backward pass: dependency counts, and execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import networkx as nx

from model.passes import Graph, Part, passes_of
from model.run import Property, Run, Violation, named
from real import tracing

#: stands for all outputs of a graph
_SINK = -1


class Counts(NamedTuple):
    """What networkx makes of a graph."""

    in_degree: dict[int, int]
    needed: set[int]


def count(graph: Graph) -> Counts:
    """The edges into each node, parallel ones counted, and the nodes on a way to an output.

    Without any output all nodes are run.
    """
    nodes = tuple(
        (number, *[edge[0] for edge in node.edges if edge is not None])
        for number, node in graph.nodes.items()
    )
    return _count(nodes, tuple(graph.outputs))


@lru_cache(maxsize=4096)  # small graphs are much alike, in one run and in the next
def _count(nodes: tuple[tuple[int, ...], ...], outputs: tuple[int, ...]) -> Counts:
    edges = Counter((number, to) for number, *nexts in nodes for to in nexts)
    whole = nx.DiGraph()
    whole.add_nodes_from(node[0] for node in nodes)
    whole.add_weighted_edges_from((a, b, n) for (a, b), n in edges.items())
    in_degree: dict[int, int] = dict(whole.in_degree(weight="weight"))
    if not outputs:
        return Counts(in_degree, {node[0] for node in nodes})
    whole.add_edges_from((output, _SINK) for output in outputs)
    return Counts(in_degree, set(nx.ancestors(whole, _SINK)))


@named("dependencies")
def DEPENDENCIES(run: Run) -> Iterator[Violation]:  # noqa: N802
    """What ``compute_dependencies`` finds on a worker is what networkx finds in the graph under
    the root and all send functions of the context: the nodes, for each of them the number of
    edges that lead to it, and which of them lie on a way to an output (a leaf, or a recv
    function). The pass starts with one outstanding task for each send function that the worker
    had attached in the context.
    """
    counted: dict[tuple[object, ...], Counts] = {}
    for part in passes_of(run).parts:
        if part.computed < 0:
            continue
        counts = counted.get(part.described)
        if counts is None:
            counts = counted[part.described] = count(part.graph)
        yield from _wrong_counts(run, part, counts)


def _wrong_counts(run: Run, part: Part, counts: Counts) -> Iterator[Violation]:
    def wrong(what: str, expected: object, seen: object) -> Violation:
        return run.violation("dependencies", what, expected, seen, part.started, part.computed)

    graph = part.graph
    if graph.sends.keys() != part.sends.keys():
        yield wrong(
            "send functions of the context",
            f"messages {sorted(part.sends)}",
            f"messages {sorted(graph.sends)}",
        )
    if part.outstanding != len(part.sends):
        yield wrong("outstanding tasks at the start", len(part.sends), part.outstanding)
    found = part.found
    for number in graph.nodes:
        seen = found.get(number)
        if seen is None:
            yield wrong("a node was not found", f"node {number} in the graph", "no such node")
            return
        if counts.in_degree[number] != seen.dependencies:
            expected = f"{counts.in_degree[number]} for {part.name(number)}"
            yield wrong("dependency count", expected, seen.dependencies)
        # The root of a worker that gradients reach has no edges and is not run.
        if (number in counts.needed) != seen.needed and (number or part.roots):
            words = ("is not needed", "is needed")
            yield wrong(
                "nodes to execute",
                f"{part.name(number)} {words[number in counts.needed]}",
                words[seen.needed],
            )
    for number in found:
        if number not in graph.nodes:
            yield wrong("a node too many", "nodes of the graph only", part.name(number))


@named("execution")
def EXECUTION(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Each needed node is run once in a pass (a leaf: its gradient captured), after everything
    that leads to it; nothing else is run. A send function is run once its gradients are there,
    a recv function sends gradients once, and both for their own message. A worker takes part in a
    pass once. When a pass has ended
    without error, nothing is half fed, no needed node has dependencies left, nothing is
    outstanding; and nothing of it happens later. Whoever sent a worker the first gradients of a
    pass hears that they were worked on only when the worker's part has ended.
    """
    passes = passes_of(run)
    for n in passes.stray:
        name = run.records[n][3].name
        yield run.violation("execution", f"{name} outside a pass", "a pass that runs", "none", n)
    yield from _too_many_parts(run, passes.parts)
    for part in passes.parts:
        if part.computed >= 0:
            yield from _wrong_order(run, part)
            if part.ok:
                yield from _incomplete(run, part)
    yield from _answered_early(run, passes.parts)


def _answered_early(run: Run, parts: list[Part]) -> Iterator[Violation]:
    """Who has the answer may begin the next pass."""
    answers: dict[tuple[object, ...], list[int]] = {}
    records = run.records
    for n in run.of(tracing.HANDLER_ENDED):
        worker, values = records[n][1], records[n][4]
        if values[1] == "BACKWARD_AUTOGRAD_REQ":
            answers.setdefault((worker, *values[:3]), []).append(n)
    for part in parts:
        first = part.received[0][0] if part.received else -1
        if first < 0 or not records[first][4][2]:
            continue
        handled = (part.worker, *_handler_of(run, first))
        # One that came twice has an answer at once as well.
        answered = answers.get(handled, ())
        if len(answered) == 1 and records[answered[0]][4][3] is None:
            n = answered[0]
            if not 0 <= part.ended < n:
                what = "gradients were answered too early"
                expected, seen = "an answer when the part of the pass is over", "it runs"
                yield run.violation("execution", what, expected, seen, part.started, n)


def _handler_of(run: Run, n: int) -> tuple[object, ...]:
    """The sender, type and id of the request at which a task is as it reports event ``n``."""
    records = run.records
    task = records[n][2]
    for index in range(n - 1, -1, -1):
        earlier = records[index]
        if earlier[2] == task and earlier[3] is tracing.HANDLER_STARTED:
            handler: tuple[object, ...] = earlier[4][:3]
            return handler
    return ()


def _too_many_parts(run: Run, parts: list[Part]) -> Iterator[Violation]:
    """A pass has one part on a worker, so there are no more of them than passes of the context."""
    passes = Counter(part.context for part in parts if part.roots)
    for (worker, context), count in Counter((part.worker, part.context) for part in parts).items():
        if count > passes[context]:
            last = next(
                part for part in reversed(parts) if (part.worker, part.context) == (worker, context)
            )
            yield run.violation(
                "execution",
                "a worker began a pass again",
                f"{passes[context]} parts in context {context}",
                count,
                last.started,
            )


def _wrong_order(run: Run, part: Part) -> Iterator[Violation]:
    position: dict[int, int] = {}
    for n, number in part.executed:
        if number in position:
            yield run.violation(
                "execution",
                "a node was run twice",
                f"{part.name(number)} once",
                "another time",
                position[number],
                n,
            )
        position[number] = n
    needed = part.found
    for number, node in part.graph.nodes.items():
        before = position.get(number)
        for edge in node.edges:
            if edge is None or edge[0] not in position:
                continue
            after = position[edge[0]]
            if before is None:
                before_needed = needed.get(number)
                if before_needed is not None and before_needed.needed:
                    yield run.violation(
                        "execution",
                        "a node was run before what leads to it",
                        f"{part.name(number)} before {part.name(edge[0])}",
                        "it was not run",
                        after,
                    )
            elif before > after:
                yield run.violation(
                    "execution",
                    "a node was run before what leads to it",
                    f"{part.name(number)} before {part.name(edge[0])}",
                    "the other way round",
                    after,
                    before,
                )
    received = {message: n for n, message in reversed(part.received)}
    for message, number in part.graph.sends.items():
        if number in position:
            came = received.get(message)
            if came is None or came > position[number]:
                yield run.violation(
                    "execution",
                    "a send function was run without gradients",
                    f"gradients for message {message} first",
                    "none",
                    position[number],
                )


def _incomplete(run: Run, part: Part) -> Iterator[Violation]:
    def wrong(what: str, expected: object, seen: object) -> Violation:
        return run.violation("execution", what, expected, seen, part.started, part.ended)

    executed = {number for _, number in part.executed}
    first = 0 if part.roots else 1
    for number, found in part.found.items():
        if found.needed and number not in executed and number >= first:
            yield wrong("a needed node was not run", f"{part.name(number)} to run", "it did not")
    for n, number in part.executed:
        seen = part.found.get(number)
        if seen is None or not seen.needed:
            yield run.violation(
                "execution",
                "a node was run that is not needed",
                "needed nodes only",
                part.name(number),
                n,
            )
    graph = part.graph
    for what, wanted, events in (
        ("gradients received", sorted(graph.sends), part.received),
        ("gradients sent", sorted(graph.recvs.values()), part.sent),
    ):
        messages = sorted(message for _, message in events)
        if messages != wanted:
            yield wrong(what, f"once for each of {wanted}", f"for {messages}")
    leaves: dict[int, int] = {}
    for _, number in part.accumulated:
        leaves[number] = leaves.get(number, 0) + 1
        if leaves[number] > 1 or number not in graph.outputs:
            yield wrong("accumulations of a leaf", f"one for {part.name(number)}", "another")
    if part.left_outstanding:
        yield wrong("outstanding tasks at the end", 0, part.left_outstanding)
    if part.left_not_ready:
        names = ", ".join(part.name(number) for number in part.left_not_ready)
        yield wrong("half-fed nodes at the end", "none", names)
    left = [n for n in part.left_dependencies if n not in part.found or part.found[n].needed]
    if left:
        names = ", ".join(part.name(number) for number in left)
        yield wrong("dependencies left at the end", "none of a needed node", names)
    if part.late:
        n = part.late[0]
        what = f"{run.records[n][3].name} after the end of the pass"
        yield run.violation("execution", what, "nothing more", "one", part.ended, n)


PROPERTIES: tuple[Property, ...] = (DEPENDENCIES, EXECUTION)
