"""What must hold for each worker's part of a backward pass: dependency counts, and execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from squall.model.events.passes import Graph, PassPart, passes_of
from squall.model.events.run import PORT_ONLY, Property, Run, Violation, named
from squall.real import tracing

Pairs = tuple[tuple[int, int], ...]
#: of a node: the gradients it waits for, and whether it is to be run
Count = tuple[int, bool]
#: stands for all outputs of a graph
_SINK = -1


def count(graph: Graph) -> dict[int, Count]:
    """What networkx makes of a graph: for each node, the edges into it, parallel ones counted, and
    whether it is on a way to an output. Without any output all nodes are run.
    """
    return _count(tuple(graph.nodes), tuple(graph.pairs), tuple(graph.outputs))


# Without messages and shapes, the graphs of one run and of the next are much alike, and the pieces
# that they fall into even more so.
@lru_cache(maxsize=4096)
def _count(nodes: tuple[int, ...], pairs: Pairs, outputs: tuple[int, ...]) -> dict[int, Count]:
    counts: dict[int, Count] = {}
    pieces = _pieces(nodes, pairs)
    place = {
        number: (p, index) for p, piece in enumerate(pieces) for index, number in enumerate(piece)
    }
    edges: list[list[tuple[int, int]]] = [[] for _ in pieces]
    ends: list[list[int]] = [[] for _ in pieces]
    for number, to in pairs:
        edges[place[number][0]].append((place[number][1], place[to][1]))
    for number in outputs:
        ends[place[number][0]].append(place[number][1])
    for p, piece in enumerate(pieces):
        counted = _count_piece(len(piece), tuple(edges[p]), tuple(ends[p]))
        counts.update(zip(piece, counted, strict=True))
    return {number: (counts[number][0], counts[number][1] or not outputs) for number in nodes}


def _pieces(nodes: tuple[int, ...], pairs: Pairs) -> list[list[int]]:
    """The nodes, those together that edges join in either direction."""
    joined = {number: [number] for number in nodes}
    for number, to in pairs:
        piece, other = joined[number], joined[to]
        if piece is not other:
            if len(piece) < len(other):  # so that no node is moved often
                piece, other = other, piece
            piece += other
            for moved in other:
                joined[moved] = piece
    return list({id(piece): piece for piece in joined.values()}.values())


@lru_cache(maxsize=4096)
def _count_piece(size: int, pairs: Pairs, outputs: tuple[int, ...]) -> list[Count]:
    """As :func:`count` for nodes 0 to ``size - 1``; without an output, none is on a way to one."""
    import networkx as nx  # which runs without a pass do not need

    whole = nx.DiGraph()
    whole.add_nodes_from([*range(size), _SINK])
    edges = [(a, b, {"times": times}) for (a, b), times in Counter(pairs).items()]
    whole.add_edges_from(edges + [(output, _SINK, {}) for output in outputs])
    needed = nx.ancestors(whole, _SINK)
    in_degree = dict(whole.in_degree(weight="times"))
    return [(in_degree[number], number in needed) for number in range(size)]


@named("dependencies", engines=PORT_ONLY, work="both")
def DEPENDENCIES(run: Run) -> Iterator[Violation]:  # noqa: N802
    """What ``compute_dependencies`` finds on a worker is what networkx finds in the graph under
    the root and all send functions of the context: the nodes, for each of them the number of
    edges that lead to it, and which of them lie on a way to an output (a leaf, or a recv
    function). The pass starts with one outstanding task for each send function that the worker
    had attached in the context.
    """
    counted: dict[int, dict[int, Count]] = {}
    for part in passes_of(run).parts:
        if part.computed < 0:
            continue
        counts = counted.get(id(part.graph))
        if counts is None:
            counts = counted[id(part.graph)] = count(part.graph)
        yield from _wrong_counts(run, part, counts)


def _wrong_counts(run: Run, part: PassPart, counts: dict[int, Count]) -> Iterator[Violation]:
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
    at_once = {number: (count, needed) for number, _, count, needed in part.nodes}
    if not part.roots and 0 in at_once:
        # The root of a worker that gradients reach has no edges and is not run.
        at_once[0] = (at_once[0][0], False)
    if at_once == counts:
        return
    found = part.found
    for number, (in_degree, needed) in counts.items():
        seen = found.get(number)
        if seen is None:
            yield wrong("a node was not found", f"node {number} in the graph", "no such node")
            return
        if in_degree != seen.dependencies:
            expected = f"{in_degree} for {part.name(number)}"
            yield wrong("dependency count", expected, seen.dependencies)
        if needed != seen.needed and (number or part.roots):
            words = ("is not needed", "is needed")
            yield wrong(
                "nodes to execute", f"{part.name(number)} {words[needed]}", words[seen.needed]
            )
    for number in found:
        if number not in graph.nodes:
            yield wrong("a node too many", "nodes of the graph only", part.name(number))


@named("execution", engines=PORT_ONLY, work="both")
def EXECUTION(run: Run) -> Iterator[Violation]:  # noqa: N802
    """Each needed node is run once in a pass (a leaf: its gradient captured), after everything
    that leads to it; nothing else is run. A send function is run once its gradients are there,
    a recv function sends gradients once, and both for their own message. A worker takes part in a
    pass once. When a pass has ended
    without error, nothing is half fed, no needed node has dependencies left, nothing is
    outstanding. When it has ended, with an error too, nothing of it happens later, though user code
    of it may still run: no node, no gradient accumulated or sent. Whoever sent a worker the first gradients of a
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
            elif part.late:
                yield _late(run, part)
    yield from _answered_early(run, passes.parts)


def _answered_early(run: Run, parts: list[PassPart]) -> Iterator[Violation]:
    """Who has the answer may begin the next pass."""
    answers: dict[tuple[object, ...], list[int]] = {}
    records = run.records
    for n in run.of(tracing.HANDLER_ENDED):
        _, worker, _, _, (src, type, id, _) = records[n]
        if type == "BACKWARD_AUTOGRAD_REQ":
            answers.setdefault((worker, src, type, id), []).append(n)
    for part in parts:
        first = part.received[0][0] if part.received else -1
        if first < 0 or not records[first][4][2]:
            continue
        handled = (part.worker, *_handler_of(run, first))
        # A request that arrived twice is answered at once the second time.
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


def _too_many_parts(run: Run, parts: list[PassPart]) -> Iterator[Violation]:
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


def _wrong_order(run: Run, part: PassPart) -> Iterator[Violation]:
    position = {number: n for n, number in part.executed}
    if len(position) < len(part.executed):
        yield from _run_twice(run, part)
    run_at = position.get
    for number, following in part.graph.pairs:
        after = run_at(following)
        if after is None:
            continue
        before = run_at(number)
        if before is not None:
            if before > after:
                yield run.violation(
                    "execution",
                    "a node was run before what leads to it",
                    f"{part.name(number)} before {part.name(following)}",
                    "the other way round",
                    after,
                    before,
                )
            continue
        found = part.found.get(number)
        if found is not None and found.needed:
            yield run.violation(
                "execution",
                "a node was run before what leads to it",
                f"{part.name(number)} before {part.name(following)}",
                "it was not run",
                after,
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


def _run_twice(run: Run, part: PassPart) -> Iterator[Violation]:
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


def _incomplete(run: Run, part: PassPart) -> Iterator[Violation]:
    def wrong(what: str, expected: object, seen: object) -> Violation:
        return run.violation("execution", what, expected, seen, part.started, part.ended)

    executed = {number for _, number in part.executed}
    needed = {number: None for number, _, _, needed in part.nodes if needed}
    different = executed.symmetric_difference(needed)
    if different and (part.roots or different != {0}):
        first = 0 if part.roots else 1
        for number in needed:
            if number not in executed and number >= first:
                name = part.name(number)
                yield wrong("a needed node was not run", f"{name} to run", "it did not")
        for n, number in part.executed:
            if number not in needed:
                what, wanted = "a node was run that is not needed", "needed nodes only"
                yield run.violation("execution", what, wanted, part.name(number), n)
    graph = part.graph
    for what, messages, events in (
        ("gradients received", graph.sends.keys(), part.received),
        ("gradients sent", graph.recvs.values(), part.sent),
    ):
        seen, once = sorted([message for _, message in events]), sorted(messages)
        if seen != once:
            yield wrong(what, f"once for each of {once}", f"for {seen}")
    leaves: set[int] = set()
    for _, number in part.accumulated:
        if number in leaves or number not in graph.outputs:
            yield wrong("accumulations of a leaf", f"one for {part.name(number)}", "another")
        leaves.add(number)
    if part.left_outstanding:
        yield wrong("outstanding tasks at the end", 0, part.left_outstanding)
    if part.left_not_ready:
        names = ", ".join(part.name(number) for number in part.left_not_ready)
        yield wrong("half-fed nodes at the end", "none", names)
    left = [n for n in part.left_dependencies if n in needed or n not in part.found]
    if left:
        names = ", ".join(part.name(number) for number in left)
        yield wrong("dependencies left at the end", "none of a needed node", names)
    if part.late:
        yield _late(run, part)


def _late(run: Run, part: PassPart) -> Violation:
    n = part.late[0]
    what = f"{run.records[n][3].name} after the end of the pass"
    return run.violation("execution", what, "nothing more", "one", part.ended, n)


RANK = 10
PROPERTIES: tuple[Property, ...] = (DEPENDENCIES, EXECUTION)
