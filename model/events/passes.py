"""Backward passes, put together from the events of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from squall.model.events.run import Run
from squall.real import tracing

Edge = tuple[int, int] | None


class Node(NamedTuple):
    """A node of one worker's graph: edges as (number, input), or None; message of a send or
    recv function, else -1."""

    edges: tuple[Edge, ...]
    shapes: tuple[tuple[int, ...], ...]
    message: int


class Graph(NamedTuple):
    """One worker's graph, under its root (number 0) and its send functions."""

    nodes: dict[int, Node]
    #: by message: the number of its send function
    sends: dict[int, int]
    #: by number: the message of a recv function
    recvs: dict[int, int]
    #: what the graph ends in: leaves, and recv functions
    outputs: dict[int, None]
    #: all edges, from node to node
    pairs: list[tuple[int, int]]


_EMPTY = Graph({}, {}, {}, {}, [])


def _graph(described: Iterable[tuple[int, tuple[Edge, ...], Any, int]]) -> Graph:
    graph = Graph({}, {}, {}, {}, [])
    nodes, sends, recvs, outputs, pairs = graph
    for number, edges, shapes, message in described:
        nodes[number] = Node(edges, shapes, message)
        for edge in edges:
            if edge is not None:
                pairs.append((number, edge[0]))
        if message >= 0 and edges:
            sends[message] = number
        elif message >= 0:
            recvs[number] = message
            outputs[number] = None
        elif not edges and shapes:  # an empty root has no inputs
            outputs[number] = None
    return graph


class Found(NamedTuple):
    """What the engine found out about a node."""

    name: str
    dependencies: int
    needed: bool


@dataclass
class Part:
    """What one worker did of one pass: numbers of events, and what they said."""

    worker: int
    context: int
    started: int
    roots: int
    outstanding: int
    #: tensors of each send function that the worker had attached in the context, by message
    sends: dict[int, int]
    #: the workers that these messages went to
    sends_to: dict[int, int]
    computed: int = -1
    #: what the engine found, as the event has it: number, name, dependencies, needed
    nodes: tuple[tuple[int, str, int, bool], ...] = ()
    #: one pass of a context has that of the pass before it, if they are equal
    graph: Graph = _EMPTY
    #: (event, node) in order
    executed: list[tuple[int, int]] = field(default_factory=list)
    accumulated: list[tuple[int, int]] = field(default_factory=list)
    #: (event, message)
    sent: list[tuple[int, int]] = field(default_factory=list)
    received: list[tuple[int, int]] = field(default_factory=list)
    ended: int = -1
    error: str | None = None
    left_outstanding: int = 0
    left_not_ready: tuple[int, ...] = ()
    left_dependencies: tuple[int, ...] = ()
    #: what happened although the part was over
    late: list[int] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.ended >= 0 and self.error is None

    @cached_property
    def found(self) -> dict[int, Found]:
        """What the engine found, by number."""
        return {number: Found(name, count, needed) for number, name, count, needed in self.nodes}

    def name(self, number: int) -> str:
        """A node for readers."""
        found = self.found.get(number)
        if found is None:
            return f"node {number}"
        return f"node {number} ({found.name.removeprefix('torch::')})"


@dataclass
class Passes:
    """All parts, in the order of their start, and what belongs to none."""

    parts: list[Part]
    #: events of passes where no pass runs, or where one starts while another runs
    stray: list[int]

    def of_context(self, context: int) -> list[Part]:
        return [part for part in self.parts if part.context == context]


def passes_of(run: Run) -> Passes:
    """Read the passes of a run, once."""
    known: Passes | None = run.__dict__.get("_passes")
    if known is None:
        known = run.__dict__["_passes"] = _read(run)
    return known


_TYPES = (
    tracing.SEND_ATTACHED,
    tracing.PASS_STARTED,
    tracing.DEPENDENCIES_COMPUTED,
    tracing.NODE_EXECUTED,
    tracing.GRADIENTS_SENT,
    tracing.GRADIENTS_RECEIVED,
    tracing.GRADIENT_ACCUMULATED,
    tracing.PASS_ENDED,
)


#: what the error of a part says that ended because the next pass came
_OVERTAKEN = "a later backward pass has begun"
#: of these, what the runners of a part report
_OF_RUNNERS = (tracing.GRADIENTS_SENT, tracing.GRADIENT_ACCUMULATED)


def _read(run: Run) -> Passes:
    records = run.records
    parts: list[Part] = []
    stray: list[int] = []
    running: dict[tuple[int, int], Part] = {}
    last: dict[tuple[int, int], Part] = {}
    sends: dict[tuple[int, int], dict[int, int]] = {}
    sends_to: dict[tuple[int, int], dict[int, int]] = {}
    #: by worker and context: the last graph, also as its event has it
    graphs: dict[tuple[int, int], tuple[object, Graph]] = {}
    #: parts that failed, whose runners may still be at a node when the next part begins
    failed: dict[tuple[int, int], list[Part]] = {}
    #: those of them that have not ended, and by context the passes that users have begun
    overtaken: dict[tuple[int, int], list[Part]] = {}
    begun: dict[int, int] = {}
    #: parts so far, by worker and context
    seen: dict[tuple[int, int], int] = {}
    executed_type = tracing.NODE_EXECUTED
    crashes = (tracing.FAULT_INJECTED,) if run.of(tracing.FAULT_INJECTED) else ()
    for n in run.of(*_TYPES, *crashes):
        _, worker, task, type, values = records[n]
        key = (worker, values[0])
        if type is executed_type:
            part = running.get(key) or last.get(key)
            if part is not None and key in failed:
                part = _of_runner(run, task, part, failed[key])
            if part is None:
                stray.append(n)
            else:
                part.executed.append((n, values[1]))
                if part.ended >= 0:
                    part.late.append(n)
            continue
        if type is tracing.SEND_ATTACHED:
            sends.setdefault(key, {})[values[1]] = values[3]
            sends_to.setdefault(key, {})[values[1]] = values[2]
            continue
        if type is tracing.FAULT_INJECTED:
            if values[0] == "crash":  # another process of that rank begins with nothing
                for table in (running, last, sends, sends_to, failed, seen):
                    _forget(table, values[2])
            continue
        if type is tracing.PASS_STARTED:
            context, roots = values[0], values[1]
            if roots:
                begun[context] = begun.get(context, 0) + 1
            before = running.get(key)
            seen[key] = seen.get(key, 0) + 1
            if before is not None and not roots and seen[key] <= begun.get(context, 0):
                # Its pass is over at its root, which has begun another one.
                overtaken.setdefault(key, []).append(before)
                failed.setdefault(key, []).append(before)
            elif before is not None:
                stray.append(n)
            attached, to = dict(sends.get(key, ())), dict(sends_to.get(key, ()))
            part = Part(worker, context, n, roots, values[3], attached, to)
            running[key] = last[key] = part
            parts.append(part)
            continue
        part = running.get(key)
        if (
            type is tracing.PASS_ENDED
            and overtaken.get(key)
            and (part is None or _OVERTAKEN in (values[1] or ""))
        ):
            old = overtaken[key].pop(0)
            old.ended, old.error = n, values[1] or _OVERTAKEN
            continue
        if part is not None and key in failed and type in _OF_RUNNERS:
            part = _of_runner(run, task, part, failed[key])
        if part is None:
            part = last.get(key)
            if part is None:
                stray.append(n)
                continue
            part.late.append(n)
        if type is tracing.DEPENDENCIES_COMPUTED:
            part.computed = n
            _, part.nodes, described = values
            known = graphs.get(key)
            if known is None or known[0] != described:
                known = graphs[key] = (described, _graph(described))
            part.graph = known[1]
        elif type is tracing.GRADIENTS_SENT:
            part.sent.append((n, values[1]))
        elif type is tracing.GRADIENTS_RECEIVED:
            part.received.append((n, values[1]))
        elif type is tracing.GRADIENT_ACCUMULATED:
            part.accumulated.append((n, values[1]))
        elif part.ended >= 0:
            stray.append(n)
        else:
            part.ended = n
            _, part.error, part.left_outstanding, part.left_not_ready, part.left_dependencies = (
                values
            )
            running.pop(key, None)
            if part.error is not None:
                failed.setdefault(key, []).append(part)
    return Passes(parts, stray)


def _of_runner(run: Run, task: int, part: Part, failed: list[Part]) -> Part:
    """The part that a task works for: that which ran as it began, ``part`` or one that failed."""
    began: dict[int, int] | None = run.__dict__.get("_began")
    if began is None:
        records = run.records
        began = run.__dict__["_began"] = {records[n][2]: n for n in run.of(tracing.TASK_STARTED)}
    since = began.get(task, part.started)
    if since >= part.started:
        return part
    return next((each for each in reversed(failed) if each.started <= since), part)


def _forget(table: dict[tuple[int, int], Any], worker: int) -> None:
    for key in [key for key in table if key[0] == worker]:
        del table[key]


def joint_passes(run: Run) -> list[tuple[Part, dict[int, Part]]]:
    """Each pass that a user started: the root's part, and all parts by worker."""
    known: list[tuple[Part, dict[int, Part]]] | None = run.__dict__.get("_joint_passes")
    if known is not None:
        return known
    found: list[tuple[Part, dict[int, Part]]] = []
    by_context: dict[int, list[Part]] = {}
    for part in passes_of(run).parts:
        by_context.setdefault(part.context, []).append(part)
    for parts in by_context.values():
        for index, root in enumerate(parts):
            if root.roots:
                found.append((root, _parts_of_pass(root, parts[index:])))
    found.sort(key=lambda each: each[0].started)
    run.__dict__["_joint_passes"] = found
    return found


def _parts_of_pass(root: Part, later: Sequence[Part]) -> dict[int, Part]:
    parts = {root.worker: root}
    for part in later:
        if part is not root and part.roots:
            break
        parts.setdefault(part.worker, part)
    return parts
