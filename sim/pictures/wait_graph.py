"""Who waits for whom at the end of a run, as a graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

from squall.model.events.waiting import wait_graph
from squall.real import tracing
from squall.sim.pictures.causality import causes_of
from squall.sim.pictures.flows import calls_of
from squall.sim.pictures.recording import Recording, recording

if TYPE_CHECKING:
    import networkx as nx


def wait_for(run: object, *, at: int | None = None) -> nx.MultiDiGraph:
    """Who waits for whom after the first ``at`` events (by default see :func:`moment`).

    Nodes are tasks, passes, and dead ends: what does not come, as a message that was lost. They carry ``label``,
    ``kind`` and ``event`` (where they began); an edge carries ``what`` is waited for and ``since``, in seconds of
    virtual time. Raises ValueError for a number that the run has not.
    """
    import networkx as nx

    run = recording(run)
    if at is None and run.run.when_stuck.waiting:
        whole = wait_graph(run.records, run.run.when_stuck.waiting, names=run.names)
    else:
        run = until(run, at)
        names = {worker: run.name(worker) for worker in run.workers}
        whole = wait_graph(run.records, names=names)
    graph: nx.MultiDiGraph = nx.MultiDiGraph()
    for who, thing, holder in _waits(whole):
        for node in (who, holder):
            if node not in graph:
                graph.add_node(node, **_drawn(whole, node))
        since = whole.nodes[who].get("since_s")
        if since is None:
            since = run.time_s(max(whole.nodes[who]["event"], 0))
        graph.add_edge(who, holder, what=_plain(whole.nodes[thing]["label"]), since=since)
    return graph


def _waits(whole: nx.DiGraph[Any]) -> Iterator[tuple[Hashable, Hashable, Hashable]]:
    """Who waits, for what, and who is to end it, or what it lacks."""
    for who, data in whole.nodes(data=True):
        if data["kind"] not in _WHO:
            continue
        for thing in whole.successors(who):
            if whole.nodes[thing]["kind"] in _WHO:
                yield who, thing, thing
                continue
            holders = [n for n in whole.successors(thing) if whole.nodes[n]["kind"] in _WHO]
            for holder in holders or [thing]:
                yield who, thing, holder


_WHO = ("task", "pass")


def _plain(label: str) -> str:
    return label.replace("`", "")


def _drawn(whole: nx.DiGraph[Any], node: Hashable) -> dict[str, Any]:
    data = whole.nodes[node]
    kind, label = data["kind"], data["label"]
    if kind not in _WHO:
        label = data.get("lack", label)
        kind = "on its way" if "is still under way" in label else "dead end"
    return {"label": _plain(label), "kind": kind, "event": data["event"]}


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
