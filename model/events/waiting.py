"""The wait-for graph of a run: who waits for what, who holds it, and what became of the message
that would have ended the wait.

    graph = wait_graph(run.records, run.when_stuck.waiting)       # at the end, where nothing happens any more
    graph = wait_graph(run.records, until=number)                 # at an event, such as a timeout

Nodes are tasks, replies, gradients, passes, other things and workers. An edge leads from who waits to
what for, and from that to who could end the wait. A cycle is a deadlock. What a graph says of the
cause is in :mod:`squall.model.events.hang`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from squall.model.events.digest import Record
from squall.model.events.names import Names, Role
from squall.real import tracing

if TYPE_CHECKING:
    import networkx as nx

_RESPONSES = ("RET", "RESP", "ACK", "EXCEPTION")


class Waiting(NamedTuple):
    """A task that waits: ``name`` says who it is, then the worker (-1: none), since when (virtual seconds,
    negative: not known), and what for.

    ``kind`` says how it could end: "call", with (source, id) of the request in ``call``; "pass", with the
    autograd context in ``context``; "lock", "thread", "collective" and the like
    (:mod:`squall.sim.world.stack_reading`), with the tasks in ``ends`` any of which could end it. ``took``: where
    the holder of a lock has taken it; ``made``: where the lock, or what else it is, was made. ``lack``: why it does
    not come, where nobody could end the wait; ``full``: whose threads are all taken, if it is one of them.
    ``place`` and ``line`` say where it waits, in short and in whole. ``noted`` is how many events there
    were when this was noted: what comes later (the end of the simulation, which ends all tasks) has
    nothing to do with it.
    """

    task: int
    name: str
    worker: int
    since_s: float
    what: str = "an event"
    kind: str = "thing"
    call: tuple[int, int] | None = None
    context: int | None = None
    ends: tuple[int, ...] = ()
    took: str = ""
    made: str = ""
    lack: str = ""
    full: str = ""
    role: Role = "main"
    place: str = ""
    line: str = ""
    noted: int | None = None
    #: by name: the variables of the function that it is in
    variables: tuple[tuple[str, str], ...] = ()


def line_of(waiting: Waiting) -> str:
    """All of it in one line."""
    made = f" (made at {waiting.made})" if waiting.made and waiting.made != waiting.place else ""
    since = f" since t={waiting.since_s:.6f} s" if waiting.since_s >= 0 else ""
    text = f"{waiting.name} waits for {waiting.what}{made}{since}"
    return f"{text}, at {waiting.line}" if waiting.line else text


@dataclass
class _Carried:
    """A copy of a message, and what became of it. ``event``: the number of the last event of it."""

    number: int
    src: int
    dst: int
    type: str
    id: int
    about: tuple[Any, ...]
    event: int
    delivered: bool = False
    dropped: str | None = None

    @property
    def fate(self) -> str:
        if self.dropped is not None:
            return f"was lost: {self.dropped}"
        return "arrived" if self.delivered else "is still under way"


class _History:
    """What the events tell of messages, handlers, calls and passes, up to one of them."""

    def __init__(self, records: Sequence[Record]) -> None:
        #: by (sender, id, whether it is a reply): all copies
        self.messages: dict[tuple[int, int, bool], list[_Carried]] = {}
        self._by_number: dict[int, _Carried] = {}
        #: requests at work: (worker, source, id) -> (task, since)
        self.handlers: dict[tuple[int, int, int], tuple[int, float]] = {}
        #: tasks that have run a function of the user's, and are over
        self.returned: set[int] = set()
        self._called: set[int] = set()
        #: requests whose handlers have begun
        self.taken_up: set[tuple[int, int, int]] = set()
        #: calls without an end: (worker, id) -> (task, since, destination, type)
        self.calls: dict[tuple[int, int], tuple[int, float, int, str]] = {}
        #: of tasks: the worker, and the first event
        self.workers: dict[int, int] = {}
        self.first: dict[int, int] = {}
        #: passes at work: (worker, context) -> first event
        self.passes: dict[tuple[int, int], int] = {}
        #: (worker, context) -> {autograd message: to} of send functions without gradients yet
        self.unfed: dict[tuple[int, int], dict[int, int]] = {}
        #: workers that a fault has ended
        self.crashed: set[int] = set()
        for number, record in enumerate(records):
            self._take(number, record)

    def _take(self, event: int, record: Record) -> None:
        time_s, worker, task, type, values = record
        self.first.setdefault(task, event)
        if worker >= 0:
            self.workers.setdefault(task, worker)
        if type is tracing.MESSAGE_SENT:
            number, src, dst, name, id, _, about = values
            carried = _Carried(number, src, dst, name, id, about, event)
            self._by_number[number] = carried
            self.messages.setdefault((src, id, name.endswith(_RESPONSES)), []).append(carried)
        elif type in (tracing.MESSAGE_DELIVERED, tracing.MESSAGE_DROPPED):
            if (known := self._by_number.get(values[0])) is not None:
                known.event = event
                if type is tracing.MESSAGE_DELIVERED:
                    known.delivered = True
                else:
                    known.dropped = str(values[5])
        elif type is tracing.HANDLER_STARTED or type is tracing.HANDLER_RESUMED:
            self.handlers[worker, values[0], values[2]] = (task, time_s)
            self.taken_up.add((worker, values[0], values[2]))
        elif type is tracing.HANDLER_ENDED:
            self.handlers.pop((worker, values[0], values[2]), None)
        elif type is tracing.UDF_ENDED:
            self._called.add(task)
        elif type is tracing.TASK_ENDED and task in self._called and values[0] is None:
            self.returned.add(task)
        elif type is tracing.CALL_STARTED:
            self.calls[worker, values[0]] = (task, time_s, values[1], values[2])
        elif type is tracing.CALL_ENDED:
            self.calls.pop((worker, values[0]), None)
        elif type is tracing.PASS_STARTED:
            self.passes[worker, values[0]] = event
        elif type is tracing.PASS_ENDED:
            self.passes.pop((worker, values[0]), None)
        elif type is tracing.SEND_ATTACHED:
            context, message, to, _ = values
            self.unfed.setdefault((worker, context), {})[message] = to
        elif type is tracing.GRADIENTS_RECEIVED or type is tracing.SEND_DETACHED:
            self.unfed.get((worker, values[0]), {}).pop(values[1], None)
        elif type is tracing.FAULT_INJECTED and values[0] == "crash":
            self.crashed.add(values[2])

    def gradients(self, worker: int, to: int, context: int, message: int) -> _Carried | None:
        """The message with the gradients for a send function on ``worker``."""
        every = (each for copies in self.messages.values() for each in copies)
        about = context, message
        return next(
            (m for m in every if m.type == "BACKWARD_AUTOGRAD_REQ" and m.about[:2] == about), None
        )


def wait_graph(
    records: Sequence[Record],
    waiting: Sequence[Waiting] | None = None,
    *,
    until: int | None = None,
    names: Mapping[int, str] | None = None,
) -> nx.DiGraph[Any]:
    """The wait-for graph at the end, or just before event ``until``.

    ``waiting``: the tasks that wait, as the simulator knows them; None: every task with a call
    that has not ended is taken to wait for it. ``names``: what workers are called. Nodes have ``kind`` (task,
    reply, gradients, pass, worker, or that of the wait), ``label``, ``worker``, ``event`` (where it began, -1: not
    known) and, where it is known, ``since_s``, ``lack`` and ``took``; edges have ``label``, and ``place``.
    """
    import networkx as nx

    if until is None and waiting:
        until = waiting[0].noted
    records = records if until is None else records[:until]
    history, told = _History(records), Names(records, names or {})
    if waiting is None:
        waiting = [
            Waiting(task, told.task(task, worker), worker, since_s,
                    f"{told.call(worker, id)} on {told.worker(dst)}", "call", (worker, id))
            for (worker, id), (task, since_s, dst, _) in history.calls.items()
        ]  # fmt: skip
    graph: nx.DiGraph[Any] = nx.DiGraph()
    builder = _Builder(graph, history, told)
    for each in waiting:
        builder.add(each)
    return graph


class _Builder:
    def __init__(self, graph: nx.DiGraph[Any], history: _History, names: Names) -> None:
        self._graph = graph
        self._history = history
        self._names = names

    def add(self, waiting: Waiting) -> None:
        task = self._task(waiting.task, waiting.worker, waiting.name)
        self._graph.nodes[task].update(since_s=waiting.since_s, line=line_of(waiting))
        if waiting.call is not None:
            thing = self._reply(*waiting.call, label=waiting.what)
            if waiting.lack:
                self._graph.nodes[thing].setdefault("lack", waiting.lack)
        elif waiting.context is not None:
            thing = self._pass(waiting.worker, waiting.context)
        else:
            thing = (waiting.kind, waiting.what, waiting.worker, *waiting.ends)
            label = waiting.what
            about = {"took": waiting.took, "full": waiting.full}
            self._node(thing, waiting.kind, label, waiting.worker, **about)
            if waiting.lack:
                self._graph.nodes[thing]["lack"] = waiting.lack
            for end in waiting.ends:
                said = "holds it" if waiting.kind == "lock" else "is to end it"
                self._graph.add_edge(thing, self._task(end, -1), label=said)
        self._graph.add_edge(task, thing, label="waits for", place=waiting.place)

    def _node(self, key: Any, kind: str, label: str, worker: int, **more: Any) -> None:
        self._graph.add_node(
            key, **{"event": -1, "kind": kind, "label": label, "worker": worker, **more}
        )

    def _task(self, id: int, worker: int, name: str = "") -> Any:
        key = ("task", id)
        if key not in self._graph:
            worker = worker if worker >= 0 else self._history.workers.get(id, -1)
            event = self._history.first.get(id, -1)
            self._node(key, "task", name or self._names.task(id, worker), worker, event=event)
        elif name:  # it was named as a holder before
            self._graph.nodes[key].update(label=name, worker=worker)
        return key

    def _worker(self, id: int) -> Any:
        self._node(("worker", id), "worker", self._names.worker(id), id)
        return ("worker", id)

    def _reply(self, src: int, id: int, label: str = "") -> Any:
        key = ("reply", src, id)
        if key in self._graph:
            return key
        history = self._history
        requests = history.messages.get((src, id, False), [])
        if not requests:
            self._node(key, "reply", label or "a call", src, lack="the request was never sent")
            return key
        request = requests[-1]
        dst, context = request.dst, request.about[0] if request.about else None
        label = label or f"{self._names.call(src, id)} on {self._names.worker(dst)}"
        self._node(key, "reply", label, src, event=request.event)
        handler = history.handlers.get((dst, src, id))
        if request.type == "BACKWARD_AUTOGRAD_REQ" and (dst, context) in history.passes:
            assert isinstance(context, int), "a gradient message is about a context"
            self._graph.add_edge(key, self._pass(dst, context), label="comes when it ends")
        elif handler is not None and handler[0] in history.returned:
            self._graph.nodes[key]["lack"] = "it has returned a future that nobody has completed"
            self._graph.add_edge(key, self._worker(dst), label="is to complete it")
        elif handler is not None:
            task = self._task(handler[0], dst)
            self._graph.add_edge(key, task, label=f"at work since t={handler[1]:.6f}")
        else:
            self._unserved(key, request, src, id)
        return key

    def _unserved(self, key: Any, request: _Carried, src: int, id: int) -> None:
        """Nobody is at work on a request: what became of it."""
        history, dst, node = self._history, request.dst, self._graph.nodes[key]
        replies = [m for m in history.messages.get((dst, id, True), []) if m.dst == src]
        busy = [task for (worker, _, _), (task, _) in history.handlers.items() if worker == dst]
        if replies:
            node["lack"] = f"its reply {replies[-1].fate}"
            node["event"] = replies[-1].event
        elif request.delivered and (dst, src, id) not in history.taken_up and busy:
            node["full"] = self._names.worker(dst)
            for task in busy:
                self._graph.add_edge(key, self._task(task, dst), label="has a thread")
            return
        elif dst in history.crashed:
            node["lack"] = f"{self._names.worker(dst)} has crashed"
        elif request.delivered:
            node["lack"] = "the request arrived, and there is no reply"
        else:
            node["lack"] = f"the request {request.fate}"
        self._graph.add_edge(key, self._worker(dst), label="is to send it")

    def _pass(self, worker: int, context: int) -> Any:
        key = ("pass", worker, context)
        if key in self._graph:
            return key
        history, names = self._history, self._names
        started = history.passes.get((worker, context), -1)
        label = (
            f"the backward pass of the {names.thing('context', context)} on {names.worker(worker)}"
        )
        self._node(key, "pass", label, worker, event=started)
        for (src, id), (_, _, _, type) in history.calls.items():
            request = history.messages.get((src, id, False), [])
            ours = src == worker and type == "BACKWARD_AUTOGRAD_REQ"
            if ours and request and request[-1].about[:1] == (context,):
                self._graph.add_edge(key, self._reply(src, id), label="waits for")
        if (worker, context) not in history.passes:
            return key
        for message, to in history.unfed.get((worker, context), {}).items():
            gradients = ("gradients", worker, message)
            told = names.thing("message", message)
            label = f"gradients for {told}, which went to {names.worker(to)}"
            sent = history.gradients(worker, to, context, message)
            lack = f"{names.worker(to)} has sent none: nothing there has computed them"
            if sent is not None:
                lack = f"the message with them {sent.fate}"
            self._node(gradients, "gradients", label, worker, lack=lack)
            self._graph.add_edge(key, gradients, label="waits for")
            self._graph.add_edge(gradients, self._worker(to), label="is to send them")
        return key


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
