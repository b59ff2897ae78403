"""Who waits for whom at the end of a run, as a graph."""

from __future__ import annotations

from collections.abc import Hashable

import networkx as nx

from squall.model.events.hangs import predict
from squall.model.events.passes import passes_of
from squall.real import tracing
from squall.sim.pictures.causality import causes_of
from squall.sim.pictures.flows import Call, calls_of, tasks_of
from squall.sim.pictures.palette import message_name
from squall.sim.pictures.recording import Recording, recording
from squall.sim.pictures.words import context_name


def wait_for(run: object, *, at: int | None = None) -> nx.MultiDiGraph:
    """Who waits for whom after the first ``at`` events (by default see :func:`moment`).

    Nodes are tasks, passes, and dead ends: a message that was lost, a send function that nothing
    feeds. They carry ``label``, ``kind`` and ``event`` (where they began); an edge carries
    ``what`` is waited for and ``since``, in seconds of virtual time. Raises ValueError for a
    number that the run has not.
    """
    run = until(recording(run), at)
    graph: nx.MultiDiGraph = nx.MultiDiGraph()
    tasks = tasks_of(run)

    for call in calls_of(run):
        waiting = tasks.get(call.task)
        if call.ended >= 0 or waiting is None:
            continue
        what = f"{message_name(call.inner)} to {run.name(call.dst)}"
        graph.add_edge(
            _task(run, graph, call.task), _holder(run, graph, call), what=what,
            since=run.time_s(call.started),
        )  # fmt: skip
    _passes(run, graph)
    return graph


def moment(run: object) -> int:
    """How many events of a run show best who waits: all, or, where nobody waits in the end since
    timeouts ended it, those before the first timeout."""
    run = recording(run)
    calls = calls_of(run)
    if run.waits:
        return _before_the_end(run)
    if any(call.ended < 0 for call in calls):
        return len(run)
    return min((call.ended for call in calls if call.outcome == "timeout"), default=len(run))


def _before_the_end(run: Recording) -> int:
    """The first event of a task that continues although nothing that it waited for has happened: it
    is being ended."""
    arrivals = run.run.of(tracing.MESSAGE_DELIVERED)
    last = arrivals[-1] if arrivals else -1
    before, elsewhere = causes_of(run)
    for event in range(last + 1, len(run)):
        if -1 < before[event] < last and elsewhere[event] < 0:
            return event
    return len(run)


def until(run: Recording, at: int | None) -> Recording:
    """The first ``at`` events of a run; by default those of :func:`moment`. Raises ValueError."""
    at = moment(run) if at is None else at
    if not 0 <= at <= len(run):
        raise ValueError(f"at: expected 0 to {len(run)}, the events of this run, got {at}")
    if at == len(run):
        return run
    return Recording(run.records[:at], names=run.names, ended_s=run.time_s(at))


def _task(run: Recording, graph: nx.MultiDiGraph, id: int) -> Hashable:
    node = ("task", id)
    if node not in graph:
        known = tasks_of(run)[id]
        label = f"{run.name(known.worker)}: {message_name(known.name)}"
        graph.add_node(node, label=label, kind="task", event=known.first)
    return node


def _holder(run: Recording, graph: nx.MultiDiGraph, call: Call) -> Hashable:
    request, reply = call.request, call.reply

    def end(key: object, label: str, kind: str, event: int) -> Hashable:
        node = ("end", key)
        graph.add_node(node, label=label, kind=kind, event=event)
        return node

    if request is None:
        return end(call.started, "it was never sent", "dead end", call.started)
    if request.arrived < 0:
        if request.dropped >= 0:
            label = f"request lost: {request.reason}"
            return end(request.number, label, "dead end", request.dropped)
        return end(request.number, "request on its way", "on its way", request.sent)
    if reply is not None:
        if reply.dropped >= 0:
            return end(reply.number, f"reply lost: {reply.reason}", "dead end", reply.dropped)
        label = "reply arrived, nobody took it" if reply.arrived >= 0 else "reply on its way"
        return end(reply.number, label, "on its way", reply.sent)
    if call.handler_started < 0:
        label = f"queued at {run.name(call.dst)}"
        return end(request.number, label, "dead end", request.arrived)
    return _task(run, graph, run.records[call.handler_started][2])


def _passes(run: Recording, graph: nx.MultiDiGraph) -> None:
    parts = {
        (part.worker, part.context): part for part in passes_of(run.run).parts if part.ended < 0
    }
    for (worker, context), part in parts.items():
        node = ("pass", worker, context)
        graph.add_node(
            node,
            label=f"{run.name(worker)}: pass in {context_name(context)}",
            kind="pass",
            event=part.started,
        )
        if part.roots:
            starter = _task(run, graph, run.records[part.started][2])
            graph.add_edge(starter, node, what="the pass", since=run.time_s(part.started))
        for asking in calls_of(run):
            if asking.ended >= 0 or asking.dst != worker or asking.handler_started < 0:
                continue
            handler = run.records[asking.handler_started][2]
            first = part.received[0][0] if part.received else part.started
            if run.records[first][2] == handler and ("task", handler) in graph:
                graph.add_edge(
                    ("task", handler), node, what="the pass", since=run.time_s(part.started)
                )
        for asked in calls_of(run):
            if asked.ended < 0 and asked.worker == worker and asked.type.startswith("BACKWARD"):
                about = () if asked.request is None else asked.request.about
                if about and about[0] == context and ("task", asked.task) in graph:
                    graph.add_edge(
                        node, ("task", asked.task), what="its gradients",
                        since=run.time_s(asked.started),
                    )  # fmt: skip
    for predicted in predict(run.run, ended=False):
        for unfed in predicted.unfed:
            node = ("pass", unfed.worker, predicted.root.context)
            if node not in graph:
                continue
            dead = ("unfed", unfed.worker, unfed.message)
            label = (
                f"message {context_name(unfed.message)} to {run.name(unfed.to)}: nothing uses it"
            )
            graph.add_node(dead, label=label, kind="dead end", event=graph.nodes[node]["event"])
            since = run.time_s(graph.nodes[node]["event"])
            graph.add_edge(node, dead, what="gradients of what it sent", since=since)
