"""What a run did, as sets of small facts: which behaviour a campaign has seen, and what is new.

=====  =============================================================================================
``r``  consecutive events of one RRef: on the same worker or not, on its owner or not
``c``  the same of an autograd context, on its maker or not
``k``  the same of a call: made, handled, resumed, answered
``w``  consecutive events of one worker about any of these: about the same one or not
``s``  states of an RRef: how often each kind of event has happened to it, up to twice
``g``  edges between nodes of the graphs of passes by the names of the nodes; how many of a name
``p``  pairs of features of the program (:mod:`squall.model.coverage.features`)
=====  =============================================================================================

A fact is a number of 64 bits that is the same in every process: its set in the highest byte, and a
hash of what it says.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from squall.model.events.digest import Record
from squall.real import tracing
from squall.real.tracing import EventType

#: the sets, in the order of their numbers
SETS = {
    "r": "events of an RRef",
    "c": "events of a context",
    "k": "events of a call",
    "w": "events of a worker",
    "s": "states of an RRef",
    "g": "edges of graphs",
    "p": "pairs of features",
}
_NUMBERS = {name: number for number, name in enumerate(SETS)}
_SHIFT = 56
#: a count beyond this is as good as this
_MOST = 2
_COUNTER_BITS = 48

_facts: dict[Any, int] = {}


def _fact(what: tuple[Any, ...]) -> int:
    """The number of a fact, which begins with its set's name."""
    number = _facts.get(what)
    if number is None:
        digest = hashlib.blake2b(repr(what).encode(), digest_size=_SHIFT // 8).digest()
        number = _facts[what] = _NUMBERS[what[0]] << _SHIFT | int.from_bytes(digest)
    return number


def set_of(fact: int) -> str:
    """The name of the set that a fact is in."""
    return tuple(SETS)[fact >> _SHIFT]


class _Plan:
    """Where the values are that an event of one type is about; -1: it has none."""

    __slots__ = ("call", "context", "error", "name", "rref", "type")

    def __init__(self, type: EventType) -> None:
        def at(field: str) -> int:
            return type.fields.index(field) if field in type.fields else -1

        self.name = type.name
        self.rref, self.context, self.type = at("rref"), at("context"), at("type")
        self.error = max(at("error"), at("outcome"))
        self.call = at("id")


_CALLS = frozenset(
    (
        tracing.CALL_STARTED,
        tracing.CALL_ENDED,
        tracing.HANDLER_STARTED,
        tracing.HANDLER_RESUMED,
        tracing.HANDLER_ENDED,
    )
)
_RREFS = (
    tracing.USER_CREATED, tracing.USER_PENDING, tracing.USER_CONFIRMED, tracing.USER_TIMED_OUT,
    tracing.USER_DELETED, tracing.USER_DISCARDED, tracing.CHILD_PENDING, tracing.OWNER_CREATED,
    tracing.OWNER_PENDING, tracing.OWNER_VALUE_SET, tracing.OWNER_DELETED, tracing.OWNER_FAILED,
    tracing.FORK_ADDED, tracing.FORK_DELETED, tracing.RREF_FETCHED,
)  # fmt: skip
#: what an event adds to the state of its RRef, which counts in digits
_PLACES = {type: (_MOST + 1) ** place for place, type in enumerate(_RREFS)}
#: of which there are many, and which the edges of graphs say better
_LEFT_OUT = frozenset((tracing.NODE_EXECUTED, tracing.GRADIENT_ACCUMULATED))
_PLANS = {
    type: _Plan(type)
    for type in EventType.registry.values()
    if type in _CALLS or type in _PLACES or ("context" in type.fields and type not in _LEFT_OUT)
}


def facts_of(records: Sequence[Record]) -> set[int]:
    """What the events of a run say, but for ``p``."""
    # As they are said first, and numbered at the end: most are said again and again.
    said: set[tuple[Any, ...]] = set()
    add = said.add
    #: of each object: the label of its last event, and the worker on which that was
    last: dict[Any, tuple[str, int]] = {}
    of_worker: dict[int, tuple[str, Any]] = {}
    states: dict[Any, int] = {}
    labels: dict[Any, str] = {}
    plans, places = _PLANS, _PLACES
    for _, worker, _, type, values in records:
        plan = plans.get(type)
        if plan is None:
            continue
        if plan.rref >= 0:
            key: Any = ("r", values[plan.rref])
        elif plan.context >= 0:
            key = ("c", values[plan.context])
        elif type is tracing.CALL_STARTED or type is tracing.CALL_ENDED:
            key = ("k", (worker, values[plan.call]))
        else:
            key = ("k", (values[0], values[plan.call]))
        error = values[plan.error] if plan.error >= 0 else None
        failed = error is not None and error != "ok"
        named = (type, values[plan.type] if plan.type >= 0 else None, failed)
        label = labels.get(named)
        if label is None:
            label = labels[named] = f"{plan.name} {named[1] or ''}{' !' if failed else ''}"
        kind, id = key
        before, where = last.get(key, ("", worker))
        if kind == "r":
            home = worker == id[0]
        elif kind == "c":
            home = worker == id >> _COUNTER_BITS
        else:
            home = worker == id[0]
        add((kind, before, label, where == worker, home))
        last[key] = label, worker
        earlier, about = of_worker.get(worker, ("", None))
        add(("w", earlier, label, about == key))
        of_worker[worker] = label, key
        place = places.get(type)
        if place is not None:
            state = states.get(id, 0)
            if state // place % (_MOST + 1) < _MOST:
                state = states[id] = state + place
                add(("s", state))
        elif type is tracing.DEPENDENCIES_COMPUTED:
            said.update(_of_graph(values[1], values[2]))
    return set(map(_fact, said))


def _of_graph(nodes: Iterable[Any], graph: Iterable[Any]) -> Iterable[tuple[Any, ...]]:
    names = {number: name for number, name, *_ in nodes}
    counts = Counter(names.values())
    for name, count in counts.items():
        yield "g", name, min(count, _MOST + 1)
    for number, edges, *_ in graph:
        above = names.get(number)
        for edge in edges:
            if edge is not None:
                yield "g", above, names.get(edge[0])


def pairs_of(features: Iterable[str]) -> set[int]:
    """The facts of set ``p``: which features a program has at once."""
    return {_fact(("p", *pair)) for pair in combinations(sorted(features), 2)}
