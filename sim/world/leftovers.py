"""What the state of a worker still holds when nothing is under way any more.

Found by a walk over the worker's objects and not from a list of tables: a table that is new is
looked at because it is there. What may hold something even then stands in
:mod:`squall.model.events.idle_state`, each with its reason.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter, deque
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from torch import Tensor

from squall.model.events.idle_state import AFTER_A_PASS, COUNTED, KEPT, REMEMBERED
from squall.real.rpc.transport import Transport
from squall.real.runtime import Runtime
from squall.real.tracing import LEFT_BEHIND, STILL_ALIVE, Tracer
from squall.real.worker import Worker
from squall.sim.world.primitives import SimLock
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.trace import TraceWriter

_CONTAINERS = frozenset({dict, list, set, deque})
_NUMBERS = frozenset({int, bool})
#: what belongs to no worker, or leads to all of them
_ELSEWHERE = (Runtime, Transport, Tracer)
_PLAIN = frozenset({int, bool, str, type(None)})
#: letters of an example
_EXAMPLE = 120
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class Leftover(NamedTuple):
    """A place that holds something: ``Class.attribute``, how much, and the first of it."""

    where: str
    held: int
    example: str


class _Kind:
    """What is looked at in the objects of one class: the ``slots``, and of other attributes all but
    those ``kept``; of tables of what is over (``remembered``) that there is nothing else in them, and
    of those that events count (``counted``) that there is nothing that cannot be counted."""

    __slots__ = ("counted", "has_dict", "kept", "name", "remembered", "slots")

    def __init__(self, type: type) -> None:
        names = [each.__name__ for each in type.__mro__ if _is_ours(each)]
        self.name = names[0]
        self.kept, self.remembered, self.counted = (
            frozenset(attribute for name, attribute in table if name in names)
            for table in (KEPT, REMEMBERED, COUNTED)
        )
        slots = [name for each in type.__mro__ for name in each.__dict__.get("__slots__", ())]
        self.slots = [name for name in slots if name not in self.kept and name[:2] != "__"]
        self.has_dict = any("__dict__" in each.__dict__ for each in type.__mro__)


#: by class; None: its objects are not looked at
_KINDS: dict[type, _Kind | None] = {}


def _is_ours(type: type) -> bool:
    return type.__module__.startswith("squall.real.") and not issubclass(type, _ELSEWHERE)


def left_in(*roots: object) -> Iterator[Leftover]:
    """What the objects that ``roots`` lead to hold and should not."""
    kinds = _KINDS
    seen = {id(root) for root in roots}
    objects: list[Any] = list(roots)
    for obj in objects:  # grows while it is walked
        kind = kinds.get(type(obj)) or _kind(type(obj))
        assert kind is not None, "only such objects are walked"
        kept = kind.kept
        attributes = [(slot, getattr(obj, slot, None)) for slot in kind.slots]
        if kind.has_dict:
            attributes += obj.__dict__.items()
        for attribute, value in attributes:
            if value is None or attribute in kept:
                continue
            found = type(value)
            if found in kinds:
                if kinds[found] is not None and id(value) not in seen:
                    seen.add(id(value))
                    objects.append(value)
            elif found in _CONTAINERS:
                if not value:
                    continue
                if attribute in kind.counted:
                    value = [key for key, entry in value.items() if _is_empty(entry)]
                elif attribute in kind.remembered and _is_plain(value):
                    continue
                if value:
                    yield Leftover(f"{kind.name}.{attribute}", len(value), _first(value))
            elif found in _NUMBERS:
                if value:
                    yield Leftover(f"{kind.name}.{attribute}", int(value), "")
            elif found is SimLock:
                if value.owner is not None:
                    yield Leftover(f"{kind.name}.{attribute}", 1, f"held by {_shown(value.owner)}")
            elif _kind(found) is not None and id(value) not in seen:
                seen.add(id(value))
                objects.append(value)


def _first(values: Collection[Any]) -> str:
    """An example of what a container has, the same one in each run."""
    shown = map(_shown, values)
    return min(shown) if isinstance(values, set) else next(shown)  # a set has them by their hashes


def _shown(thing: object) -> str:
    """A thing in words that are the same in each run: without its address."""
    return _ADDRESS.sub("", repr(thing))[:_EXAMPLE]


def _kind(type: type) -> _Kind | None:
    if type not in _KINDS:
        _KINDS[type] = _Kind(type) if any(map(_is_ours, type.__mro__)) else None
    return _KINDS[type]


def _is_empty(entry: Any) -> bool:
    """Whether a table says with an entry that there is nothing."""
    if type(entry) is weakref.ref:
        return entry() is None
    return type(entry) in _CONTAINERS and not entry


def _is_plain(table: dict[Any, Any]) -> bool:
    """Whether a table has ids and texts only, by which nothing else could be reached."""
    return _PLAIN.issuperset(map(type, table.values())) and all(
        kind in _PLAIN or issubclass(kind, tuple) for kind in set(map(type, table))
    )


def tell_what_is_alive(worker: Worker) -> None:
    """Report the objects of a worker that have to be gone and are not. Asked before anybody
    collects garbage: what only a cycle keeps has not been given back."""
    tracer = worker.tracer
    if not isinstance(tracer, TraceWriter):
        return
    present = worker.agent, worker.rref_context
    alive = [thing for thing in tracer.alive() if thing not in present]
    if tracer.observer is not None:
        # Who computes a reference joins the graphs of all workers, and runs torch's engine on them:
        # a tensor lives as long as any of that.
        alive = [thing for thing in alive if not isinstance(thing, Tensor)]
    if alive and isinstance(worker.runtime, SimRuntime):
        # A program's task reads the gradients of all workers where they are. The process that it is of
        # may end at that, and leaves it as it is.
        held = set(map(id, worker.runtime.held_by_frozen()))
        alive = [thing for thing in alive if id(thing) not in held]
    if alive:
        first = {type(thing).__name__: thing for thing in reversed(alive)}
        for name, count in Counter(type(thing).__name__ for thing in alive).items():
            tracer.emit(STILL_ALIVE, name, count, _shown(first[name]))


def tell_what_is_left(worker: Worker) -> None:
    """Report what the tables of a worker hold."""
    for leftover in left_in(worker):
        worker.tracer.emit(LEFT_BEHIND, *leftover)
    for key, value in worker.locals.items():
        if type(value) in _CONTAINERS and value:
            worker.tracer.emit(LEFT_BEHIND, f"Worker.locals[{key!r}]", len(value), _first(value))


def tell_what_a_pass_left(worker: Worker, context_id: int) -> None:
    """Report what an open context of a worker holds of a pass when that has ended well: nothing but
    its gradients and what is recorded of messages."""
    context = None if worker.container is None else worker.container._contexts.get(context_id)
    if context is not None:
        for where, held, example in left_in(context, *context._sends.values()):
            worker.tracer.emit(LEFT_BEHIND, f"{where}{AFTER_A_PASS}", held, example)


def tell_what_a_failed_pass_left(worker: Worker, context_id: int) -> None:
    """Report gradients that wait at a send function of an open context, on a worker where no pass of it
    runs: those of a pass that is over, or was refused, which no later one may come upon."""
    context = None if worker.container is None else worker.container._contexts.get(context_id)
    if context is None or context._graph_task is not None:
        return
    for send in context._sends.values():
        if send._grads:
            where = f"{type(send).__name__}._grads{AFTER_A_PASS}"
            worker.tracer.emit(LEFT_BEHIND, where, len(send._grads), "")
