"""The wait-for graph of a run: who waits for what, who holds it, and what became of the message
that would have ended the wait.

    graph = wait_graph(run.records, run.waiting)       # at the end, where nothing happens any more
    graph = wait_graph(run.records, until=number)      # at an event, such as a timeout
    for line in explain(graph): print(line)

Nodes are tasks, replies, gradients, passes, locks and workers. An edge leads from who waits to
what for, and from that to who holds it. A cycle is a deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from squall.model.events.digest import Record
from squall.real import tracing

if TYPE_CHECKING:
    import networkx as nx

_COUNTER_BITS = 48
_MOST_CYCLES = 10
_RESPONSES = ("RET", "RESP", "ACK", "EXCEPTION")


class Waiting(NamedTuple):
    """A task that waits: on which worker (-1: none), since when (virtual seconds), what for.

    ``call`` is (source, id) of the request whose reply it waits for, ``context`` the autograd
    context whose pass it waits for, ``holder`` the task that has the lock it waits for. ``noted``
    is how many events there were when this was noted: what comes later (the end of the
    simulation, which ends all tasks) has nothing to do with it.
    """

    task: int
    name: str
    worker: int
    since_s: float
    what: str
    call: tuple[int, int] | None = None
    context: int | None = None
    holder: int | None = None
    noted: int | None = None


@dataclass
class _Carried:
    """A copy of a message, and what became of it."""

    number: int
    src: int
    dst: int
    type: str
    id: int
    about: tuple[Any, ...]
    sent_s: float
    delivered_s: float | None = None
    dropped: str | None = None

    @property
    def fate(self) -> str:
        text = f"{self.type} (message {self.number}), sent at t={self.sent_s:.6f}"
        if self.dropped is not None:
            return f"{text}, was lost: {self.dropped}"
        if self.delivered_s is not None:
            return f"{text}, arrived at t={self.delivered_s:.6f}"
        return f"{text}, is still under way"


class _History:
    """What the events tell of messages, handlers, calls and passes, up to one of them."""

    def __init__(self, records: Sequence[Record]) -> None:
        #: by (sender, id, whether it is a reply): all copies
        self.messages: dict[tuple[int, int, bool], list[_Carried]] = {}
        self._by_number: dict[int, _Carried] = {}
        #: requests at work: (worker, source, id) -> (task, since)
        self.handlers: dict[tuple[int, int, int], tuple[int, float]] = {}
        #: requests whose handlers have begun
        self.taken_up: set[tuple[int, int, int]] = set()
        #: calls without an end: (worker, id) -> (task, since, destination, type)
        self.calls: dict[tuple[int, int], tuple[int, float, int, str]] = {}
        self.names: dict[int, str] = {}
        self.workers: dict[int, int] = {}
        #: passes at work: (worker, context) -> since
        self.passes: dict[tuple[int, int], float] = {}
        #: (worker, context) -> {autograd message: to} of send functions without gradients yet
        self.unfed: dict[tuple[int, int], dict[int, int]] = {}
        for record in records:
            self._take(record)

    def _take(self, record: Record) -> None:
        time_s, worker, task, type, values = record
        if type is tracing.MESSAGE_SENT:
            number, src, dst, name, id, _, about = values
            carried = _Carried(number, src, dst, name, id, about, time_s)
            self._by_number[number] = carried
            self.messages.setdefault((src, id, name.endswith(_RESPONSES)), []).append(carried)
        elif type is tracing.MESSAGE_DELIVERED:
            if values[0] in self._by_number:
                self._by_number[values[0]].delivered_s = time_s
        elif type is tracing.MESSAGE_DROPPED:
            if values[0] in self._by_number:
                self._by_number[values[0]].dropped = str(values[5])
        elif type is tracing.TASK_STARTED:
            self.names[task] = str(values[0])
            self.workers[task] = worker
        elif type is tracing.HANDLER_STARTED or type is tracing.HANDLER_RESUMED:
            self.handlers[worker, values[0], values[2]] = (task, time_s)
            self.taken_up.add((worker, values[0], values[2]))
        elif type is tracing.HANDLER_ENDED:
            self.handlers.pop((worker, values[0], values[2]), None)
        elif type is tracing.CALL_STARTED:
            self.calls[worker, values[0]] = (task, time_s, values[1], values[2])
        elif type is tracing.CALL_ENDED:
            self.calls.pop((worker, values[0]), None)
        elif type is tracing.PASS_STARTED:
            self.passes[worker, values[0]] = time_s
        elif type is tracing.PASS_ENDED:
            self.passes.pop((worker, values[0]), None)
        elif type is tracing.SEND_ATTACHED:
            context, message, to, _ = values
            self.unfed.setdefault((worker, context), {})[message] = to
        elif type is tracing.GRADIENTS_RECEIVED or type is tracing.SEND_DETACHED:
            self.unfed.get((worker, values[0]), {}).pop(values[1], None)

    def fate(self, src: int, dst: int, id: int) -> str:
        """What became of a request and of its reply."""
        requests = self.messages.get((src, id, False), [])
        replies = [m for m in self.messages.get((dst, id, True), []) if m.dst == src]
        if not requests:
            return "the request was never sent"
        if replies:
            return f"the reply {replies[-1].fate}"
        if requests[-1].delivered_s is not None and (dst, src, id) not in self.taken_up:
            return f"the request {requests[-1].fate}, and no thread of worker {dst} takes it up"
        return f"the request {requests[-1].fate}, and there is no reply"

    def gradients(self, worker: int, to: int, context: int, message: int) -> str:
        """What became of the gradients for a send function on ``worker``."""
        for sent in self.messages.values():
            for carried in sent:
                if carried.type == "BACKWARD_AUTOGRAD_REQ" and carried.about[:2] == (
                    context,
                    message,
                ):
                    return f"{carried.fate}"
        return f"worker {to} has sent none: nothing there has computed them"


def wait_graph(
    records: Sequence[Record],
    waiting: Sequence[Waiting] | None = None,
    *,
    until: int | None = None,
) -> nx.DiGraph[Any]:
    """The wait-for graph at the end, or just before event ``until``.

    ``waiting``: the tasks that wait, as the simulator knows them; None: every task with a call
    that has not ended is taken to wait for it. Nodes have ``kind`` (task, reply, gradients, pass,
    lock, worker, thing), ``label``, ``worker`` and, where it is known, ``since_s``; edges have
    ``label``.
    """
    import networkx as nx

    if until is None and waiting:
        until = waiting[0].noted
    history = _History(records if until is None else records[:until])
    if waiting is None:
        waiting = [
            Waiting(task, history.names.get(task, ""), worker, since_s, "a reply", (worker, id))
            for (worker, id), (task, since_s, _, _) in history.calls.items()
        ]
    graph: nx.DiGraph[Any] = nx.DiGraph()
    builder = _Builder(graph, history)
    for each in waiting:
        builder.add(each)
    return graph


class _Builder:
    def __init__(self, graph: nx.DiGraph[Any], history: _History) -> None:
        self._graph = graph
        self._history = history

    def add(self, waiting: Waiting) -> None:
        task = self._task(waiting.task, waiting.name, waiting.worker)
        self._graph.nodes[task]["since_s"] = waiting.since_s
        if waiting.call is not None:
            thing = self._reply(*waiting.call)
        elif waiting.context is not None:
            thing = self._pass(waiting.worker, waiting.context)
        elif waiting.holder is not None:
            thing = ("lock", waiting.what)
            self._node(thing, "lock", waiting.what, waiting.worker)
            self._graph.add_edge(thing, self._task(waiting.holder, "", -1), label="holds it")
        else:
            thing = ("thing", waiting.what)
            self._node(thing, "thing", waiting.what, waiting.worker)
        self._graph.add_edge(task, thing, label="waits for")

    def _node(self, key: Any, kind: str, label: str, worker: int, **more: Any) -> None:
        self._graph.add_node(key, kind=kind, label=label, worker=worker, **more)

    def _task(self, id: int, name: str, worker: int) -> Any:
        key = ("task", id)
        if key not in self._graph:
            name = name or self._history.names.get(id, "task")
            worker = worker if worker >= 0 else self._history.workers.get(id, -1)
            self._node(key, "task", f"{name} (task {id})", worker)
        elif name:  # it was named as a holder before
            self._graph.nodes[key].update(label=f"{name} (task {id})", worker=worker)
        return key

    def _worker(self, id: int) -> Any:
        self._node(("worker", id), "worker", f"worker {id}", id)
        return ("worker", id)

    def _reply(self, src: int, id: int) -> Any:
        key = ("reply", src, id)
        if key in self._graph:
            return key
        history = self._history
        requests = history.messages.get((src, id, False), [])
        if not requests:
            self._node(key, "reply", f"the reply to call {id}", src, fate="it was never sent")
            return key
        request = requests[-1]
        dst, context = request.dst, request.about[0] if request.about else None
        label = f"the reply to {request.type} (id {id}) from worker {dst}"
        self._node(key, "reply", label, src, fate=history.fate(src, dst, id))
        handler = history.handlers.get((dst, src, id))
        if request.type == "BACKWARD_AUTOGRAD_REQ" and (dst, context) in history.passes:
            assert isinstance(context, int), "a gradient message is about a context"
            self._graph.add_edge(key, self._pass(dst, context), label="comes when it ends")
        elif handler is not None:
            task = self._task(handler[0], "", dst)
            self._graph.add_edge(key, task, label=f"at work since t={handler[1]:.6f}")
        elif request.delivered_s is not None and (dst, src, id) not in history.taken_up:
            for (worker, _, _), (task_id, since_s) in history.handlers.items():
                if worker == dst:
                    task = self._task(task_id, "", dst)
                    self._graph.add_edge(key, task, label=f"has its thread since t={since_s:.6f}")
        else:
            self._graph.add_edge(key, self._worker(dst), label="is to send it")
        return key

    def _pass(self, worker: int, context: int) -> Any:
        key = ("pass", worker, context)
        if key in self._graph:
            return key
        history = self._history
        label = f"the backward pass of context {_id(context)} on worker {worker}"
        self._node(key, "pass", label, worker, since_s=history.passes.get((worker, context)))
        for (src, id), (_, _, _, type) in history.calls.items():
            request = history.messages.get((src, id, False), [])
            ours = src == worker and type == "BACKWARD_AUTOGRAD_REQ"
            if ours and request and request[-1].about[:1] == (context,):
                self._graph.add_edge(key, self._reply(src, id), label="waits for")
        for message, to in history.unfed.get((worker, context), {}).items():
            if (worker, context) not in history.passes:
                continue
            gradients = ("gradients", worker, message)
            label = f"gradients for autograd message {_id(message)}, which went to worker {to}"
            fate = history.gradients(worker, to, context, message)
            self._node(gradients, "gradients", label, worker, fate=fate)
            self._graph.add_edge(key, gradients, label="waits for")
            self._graph.add_edge(gradients, self._worker(to), label="is to send them")
        return key


def explain(graph: nx.DiGraph[Any]) -> list[str]:
    """The graph in words: a line for each wait, and one for each cycle."""
    import networkx as nx

    lines = []
    for node, data in graph.nodes(data=True):
        if data["kind"] not in ("task", "pass"):
            continue
        for _, thing in graph.out_edges(node):
            lines.append(_line(graph, data, thing))
    # In a crowd of handlers that all wait there are more circles than anybody could list.
    for cycle in islice(nx.simple_cycles(graph), _MOST_CYCLES):
        names = [graph.nodes[node]["label"] for node in [*cycle, cycle[0]]]
        lines.append(f"a deadlock: {' -> '.join(names)}")
    return lines


def _line(graph: nx.DiGraph[Any], data: dict[str, Any], thing: Any) -> str:
    what = graph.nodes[thing]
    where = f"worker {data['worker']}: " if data["kind"] == "task" and data["worker"] >= 0 else ""
    since = f" since t={data['since_s']:.6f} s" if data.get("since_s") is not None else ""
    text = f"{where}{data['label']} waits for {what['label']}{since}"
    if what.get("fate"):
        text = f"{text}: {what['fate']}"
    held = [
        f"{graph.nodes[holder]['label']} {edge['label']}"
        for _, holder, edge in graph.out_edges(thing, data=True)
        if graph.nodes[holder]["kind"] != "worker" and edge["label"] != "waits for"
    ]
    return f"{text}; {', '.join(held)}" if held else text


def to_json(graph: nx.DiGraph[Any]) -> dict[str, Any]:
    """The graph as plain values: nodes with an ``id`` each, and edges between them."""
    ids = {node: " ".join(str(part) for part in node) for node in graph}
    return {
        "nodes": [{"id": ids[node], **data} for node, data in graph.nodes(data=True)],
        "edges": [
            {"from": ids[one], "to": ids[other], **data}
            for one, other, data in graph.edges(data=True)
        ],
    }


def timeouts(records: Sequence[Record]) -> Iterator[int]:
    """The numbers of the events at which a call ended because its time was over."""
    for number, record in enumerate(records):
        if record[3] is tracing.CALL_ENDED and record[4][2] == "timeout":
            yield number


def explain_timeout(records: Sequence[Record], number: int) -> list[str]:
    """Why the call that timed out at an event had no reply yet: the chain of waits behind it."""
    import networkx as nx

    _, worker, _, _, (id, _, _) = records[number]
    graph = wait_graph(records, until=number)
    key = ("reply", worker, id)
    if key not in graph:
        return []
    behind = nx.descendants(graph, key) | nx.ancestors(graph, key) | {key}
    return explain(graph.subgraph(behind))


def _id(value: int) -> str:
    return f"{value >> _COUNTER_BITS}.{value & ((1 << _COUNTER_BITS) - 1)}"
