"""Backward passes, put together from the events of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from squall.model.events.run import Run
from squall.real import tracing
from squall.real.tracing import EventType

Edge = tuple[int, int] | None

#: what the error of a backward pass says that did not begin, since another one ran
REFUSED = "backward pass is already running"


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
class PassPart:
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

    parts: list[PassPart]
    #: events of passes where no pass runs, or where one starts while another runs
    stray: list[int]

    def of_context(self, context: int) -> list[PassPart]:
        return [part for part in self.parts if part.context == context]


def passes_of(run: Run) -> Passes:
    """Read the passes of a run, once."""
    known: Passes | None = run.__dict__.get("_passes")
    if known is None:
        known = run.__dict__["_passes"] = _Reader(run).read()
    return known


#: worker and context
Key = tuple[int, int]


class _Reader:
    """Reads the parts of a run's passes off its events, in their order."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parts: list[PassPart] = []
        self._stray: list[int] = []
        self._running: dict[Key, PassPart] = {}
        self._last: dict[Key, PassPart] = {}
        self._sends: dict[Key, dict[int, int]] = {}
        self._sends_to: dict[Key, dict[int, int]] = {}
        #: the last graph, also as its event has it
        self._graphs: dict[Key, tuple[object, Graph]] = {}
        #: parts that failed, whose runners may still be at a node when the next part begins
        self._failed: dict[Key, list[PassPart]] = {}

    def read(self) -> Passes:
        """All of them."""
        run, rules = self._run, _RULES
        records = run.records
        crashes = (tracing.FAULT_INJECTED,) if run.of(tracing.FAULT_INJECTED) else ()
        for n in run.of(*_TYPES, *crashes):
            _, worker, task, type, values = records[n]
            rules[type](self, n, (worker, values[0]), task, values)
        return Passes(self._parts, self._stray)

    def _send_attached(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        _, message, to, tensors = values
        self._sends.setdefault(key, {})[message] = tensors
        self._sends_to.setdefault(key, {})[message] = to

    def _fault_injected(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        if values[0] != "crash":
            return
        # Another process of that rank begins with nothing.
        tables: tuple[dict[Key, Any], ...] = (
            self._running,
            self._last,
            self._sends,
            self._sends_to,
            self._failed,
        )
        for table in tables:
            for each in [each for each in table if each[0] == values[2]]:
                del table[each]

    def _send_detached(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        for table in (self._sends, self._sends_to):
            table.get(key, {}).pop(values[1], None)

    def _pass_started(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        context, roots = values[0], values[1]
        if key in self._running:
            self._stray.append(n)
        attached, to = dict(self._sends.get(key, ())), dict(self._sends_to.get(key, ()))
        part = PassPart(key[0], context, n, roots, values[3], attached, to)
        self._running[key] = self._last[key] = part
        self._parts.append(part)

    def _node_executed(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        part = self._running.get(key) or self._last.get(key)
        if part is not None and key in self._failed:
            part = _of_runner(self._run, task, part, self._failed[key])
        if part is None:
            self._stray.append(n)
            return
        part.executed.append((n, values[1]))
        if part.ended >= 0:
            part.late.append(n)

    def _dependencies_computed(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        part = self._part_of(n, key)
        if part is None:
            return
        part.computed = n
        _, part.nodes, described = values
        known = self._graphs.get(key)
        if known is None or known[0] != described:
            known = self._graphs[key] = (described, _graph(described))
        part.graph = known[1]

    def _gradients_sent(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        part = self._part_of(n, key, task)
        if part is not None:
            part.sent.append((n, values[1]))

    def _gradients_received(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        part = self._part_of(n, key)
        if part is not None:
            part.received.append((n, values[1]))

    def _gradient_accumulated(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        part = self._part_of(n, key, task)
        if part is not None:
            part.accumulated.append((n, values[1]))

    def _pass_ended(self, n: int, key: Key, task: int, values: tuple[Any, ...]) -> None:
        part = self._part_of(n, key)
        if part is None:
            return
        if part.ended >= 0:
            self._stray.append(n)
            return
        part.ended = n
        _, part.error, part.left_outstanding, part.left_not_ready, part.left_dependencies = values
        self._running.pop(key, None)
        if part.error is not None:
            self._failed.setdefault(key, []).append(part)

    def _part_of(self, n: int, key: Key, task: int | None = None) -> PassPart | None:
        """The part that an event belongs to: that which runs, or which ran last. ``task``: the
        runner that reports it, which may be that of a part which has failed."""
        part = self._running.get(key)
        if part is not None and task is not None and key in self._failed:
            part = _of_runner(self._run, task, part, self._failed[key])
        if part is None:
            part = self._last.get(key)
            if part is None:
                self._stray.append(n)
            else:
                part.late.append(n)
        return part


_RULES: dict[EventType, Callable[[_Reader, int, Key, int, tuple[Any, ...]], None]] = {
    tracing.SEND_ATTACHED: _Reader._send_attached,
    tracing.SEND_DETACHED: _Reader._send_detached,
    tracing.PASS_STARTED: _Reader._pass_started,
    tracing.DEPENDENCIES_COMPUTED: _Reader._dependencies_computed,
    tracing.NODE_EXECUTED: _Reader._node_executed,
    tracing.GRADIENTS_SENT: _Reader._gradients_sent,
    tracing.GRADIENTS_RECEIVED: _Reader._gradients_received,
    tracing.GRADIENT_ACCUMULATED: _Reader._gradient_accumulated,
    tracing.PASS_ENDED: _Reader._pass_ended,
    tracing.FAULT_INJECTED: _Reader._fault_injected,
}
_TYPES = tuple(type for type in _RULES if type is not tracing.FAULT_INJECTED)


def _of_runner(run: Run, task: int, part: PassPart, failed: list[PassPart]) -> PassPart:
    """The part that a task works for: that which ran as it began, ``part`` or one that failed."""
    began: dict[int, int] | None = run.__dict__.get("_began")
    if began is None:
        records = run.records
        began = run.__dict__["_began"] = {records[n][2]: n for n in run.of(tracing.TASK_STARTED)}
    since = began.get(task, part.started)
    if since >= part.started:
        return part
    return next((each for each in reversed(failed) if each.started <= since), part)


def joint_passes(run: Run) -> list[tuple[PassPart, dict[int, PassPart]]]:
    """Each pass that a user started: the root's part, and all parts by worker."""
    known: list[tuple[PassPart, dict[int, PassPart]]] | None = run.__dict__.get("_joint_passes")
    if known is not None:
        return known
    found: list[tuple[PassPart, dict[int, PassPart]]] = []
    by_context: dict[int, list[PassPart]] = {}
    for part in passes_of(run).parts:
        by_context.setdefault(part.context, []).append(part)
    for parts in by_context.values():
        found += _by_root(parts)
    found.sort(key=lambda each: each[0].started)
    run.__dict__["_joint_passes"] = found
    return found


def _by_root(parts: Sequence[PassPart]) -> list[tuple[PassPart, dict[int, PassPart]]]:
    """The parts of one context by the root that they belong to: the last one that runs as they begin,
    since a pass that was given up may go on while later ones fail, or else the last one."""
    found: list[tuple[PassPart, dict[int, PassPart]]] = []
    for part in parts:
        if part.roots:
            found.append((part, {part.worker: part}))
        elif found:
            _, of_root = next(
                (each for each in reversed(found) if not 0 <= each[0].ended < part.started),
                found[-1],
            )
            of_root.setdefault(part.worker, part)
    return found
