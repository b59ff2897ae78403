"""Why a run hangs, in words: the cause in one sentence, and a line for each other wait.

    hang = hang_of(run.wait_graph())
    print(hang.cause)                 # deadlock: bank0 holds `lock` (bank.py:16) and waits for ...
    for line in hang.others: print(line)

The cause is a cycle of waits, if there is one. Otherwise it is the end of a chain of them: what is waited for
that does not come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from squall.model.events.digest import Record
from squall.model.events.waiting import wait_graph
from squall.real import tracing

if TYPE_CHECKING:
    import networkx as nx

#: kinds of waits for others to end or to leave, who wait themselves: they are the cause if nothing else is
_FOR_OTHERS = ("meeting", "threads", "processes")
#: by which of several ends of chains the cause is chosen, the first before all others; what is not here comes
#: before the last
_RANKS = ("lost", "gone", "gradients", "collective", "call", "key", "pool", "*", *_FOR_OTHERS)


#: waits of a chain that are told, the last ones
_TOLD = 3


class HangWait(NamedTuple):
    """One wait of a cycle or of a chain: ``who`` waits for ``what``, at ``place``, and who is to end that.
    ``held``: where that has taken it, if it is a lock; ``full``: the worker whose threads are all taken."""

    who: str
    what: str
    kind: str
    place: str
    by: str
    held: str
    full: str


@dataclass
class Hang:
    """``cycle``: the waits of a cycle, in order; empty if there is none. ``others``: a line for each wait that is no
    part of the cause."""

    cause: str
    cycle: list[HangWait]
    others: list[str]

    @property
    def lines(self) -> list[str]:
        return [self.cause, *self.others]


def hang_of(graph: nx.DiGraph[Any]) -> Hang | None:
    """None if nobody waits."""
    cycle = _cycle(graph)
    path = cycle or _chain(graph)
    if not path:
        return None
    steps = [
        _step(graph, *path[at : at + 3])
        for at, node in enumerate(path[:-1])
        if _is_task(graph, node)
    ]
    return Hang(
        _cycle_said(steps) if cycle else _chain_said(graph, path, steps),
        steps if cycle else [],
        [_line(graph, node) for node in graph if "line" in graph.nodes[node] and node not in path],
    )


def _line(graph: nx.DiGraph[Any], task: Any) -> str:
    """A wait, and why it has no end, or who has the lock, if that is known."""
    told = [graph.nodes[task]["line"]]
    for thing in graph.successors(task):
        data = graph.nodes[thing]
        if "lack" in data:
            told.append(data["lack"])
        elif data.get("full"):
            told.append(f"no thread of {data['full']} is free for it")
        elif data["kind"] == "lock":
            holders = " and ".join(graph.nodes[each]["label"] for each in graph.successors(thing))
            told.append(f"{holders} holds it{_at(data.get('took', ''))}")
    return ": ".join(told)


def _step(graph: nx.DiGraph[Any], task: Any, thing: Any, then: Any = None) -> HangWait:
    data = graph.nodes[thing]
    place = graph.edges[task, thing].get("place", "")
    by = "" if then is None else graph.nodes[then]["label"]
    took = data.get("took", "")
    return HangWait(
        graph.nodes[task]["label"],
        data["label"],
        data["kind"],
        place,
        by,
        took,
        data.get("full", ""),
    )


# -- which one ---------------------------------------------------------------------------------------------------------


def _cycle(graph: nx.DiGraph[Any]) -> list[Any]:
    """The shortest cycle, of those the one with a lock first: task, thing, task, ..., and the first task again."""
    import networkx as nx

    found: list[list[Any]] = []
    for part in nx.strongly_connected_components(graph):
        if len(part) < 2:
            continue
        sub = graph.subgraph(part)
        for task in [node for node in graph if node in part and _is_task(graph, node)]:
            paths = [nx.shortest_path(sub, after, task) for after in sub.successors(task)]
            found.append([task, *min(paths, key=len)])
    if not found:
        return []
    order = list(graph)
    best = min(
        found, key=lambda each: (len(each), not _is_lock(graph, each[-2]), order.index(each[0]))
    )
    return best if _alternates(graph, best) else []


def _alternates(graph: nx.DiGraph[Any], path: list[Any]) -> bool:
    """Whether tasks and what they wait for take turns: not so where passes wait for replies."""
    return all(_is_task(graph, node) == (at % 2 == 0) for at, node in enumerate(path))


def _is_task(graph: nx.DiGraph[Any], node: Any) -> bool:
    return bool(graph.nodes[node]["kind"] == "task")


def _is_lock(graph: nx.DiGraph[Any], node: Any) -> bool:
    return bool(graph.nodes[node]["kind"] == "lock")


def _chain(graph: nx.DiGraph[Any]) -> list[Any]:
    """From a task to what does not come."""
    ends = [node for node in graph if "lack" in graph.nodes[node]]
    if not ends:
        things = [node for node in graph if graph.in_degree(node) and not _is_task(graph, node)]
        # Best what is held by tasks that wait for nothing themselves, if by any.
        ends = [
            thing for thing in things if not any(map(graph.out_degree, graph.successors(thing)))
        ] or things
    if not ends:
        return []
    order = list(graph)
    end = min(ends, key=lambda node: (_rank(graph.nodes[node]), order.index(node)))
    return _way_to(graph, end)


def _way_to(graph: nx.DiGraph[Any], end: Any) -> list[Any]:
    """The waits that lead to an end, from up to three tasks before it."""
    path, tasks = [end], 0
    while tasks < _TOLD:
        before = [
            node
            for node in graph.predecessors(path[0])
            if node not in path and graph.nodes[node]["kind"] not in _FOR_OTHERS
        ]
        if not before:
            break
        path.insert(0, before[0])
        tasks += _is_task(graph, before[0])
    while path and not _is_task(graph, path[0]):
        path.pop(0)
    return path


def _rank(data: dict[str, Any]) -> int:
    kind, lack = data["kind"], data.get("lack", "")
    if "was lost" in lack:
        kind = "lost"
    elif "has ended" in lack or "has crashed" in lack:
        kind = "gone"
    elif kind == "reply":
        kind = "call"
    return _RANKS.index(kind if kind in _RANKS else "*")


# -- in words ----------------------------------------------------------------------------------------------------------


def _cycle_said(steps: list[HangWait]) -> str:
    last = steps[-1]
    holds = f" holds {last.what}{_at(last.held)} and" if last.kind == "lock" else ""
    return f"deadlock: {steps[0].who}{holds}{_waits(steps)}"


def _waits(steps: list[HangWait]) -> str:
    """The waits of a way, each by whom the one before it is to be ended."""
    text = ""
    for before, step in zip([None, *steps[:-1]], steps, strict=True):
        if before is not None:
            text += _joined(before, step)
        text += f" waits for {step.what}{_of(step)}{_at(step.place)}"
        if step.full:
            text += f", for which no thread of {step.full} is free"
    return text


def _of(step: HangWait) -> str:
    """Whose a lock is, where a function that another worker has called waits for it."""
    _, on, worker = step.who.rpartition("` on ")
    return f" of {worker}" if on and step.kind == "lock" and step.who[0] == "`" else ""


def _joined(before: HangWait, step: HangWait) -> str:
    """How a wait goes on with that of who is to end it."""
    if before.kind == "lock":
        return f", which {step.who} holds{_at(before.held)} while it"
    if step.who == before.what:
        return "; that"
    return f"; {step.who}"


def _chain_said(graph: nx.DiGraph[Any], path: list[Any], steps: list[HangWait]) -> str:
    end = graph.nodes[path[-1]]
    text = f"hang: {steps[0].who}{_waits(steps)}"
    if end["label"] != steps[-1].what:
        text += f", which waits for {end['label']}"
    return f"{text}: {end['lack']}" if "lack" in end else text


def _at(place: str) -> str:
    return f" ({place})" if place else ""


# -- timeouts ----------------------------------------------------------------------------------------------------------


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
    return [_line(graph, node) for node in graph if node in behind and "line" in graph.nodes[node]]
