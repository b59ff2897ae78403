"""Programs with one part made simpler: a field at its default, a shorter list, a smaller number.

And how simple a program is. Whole parts are cut out in model/shrink/cuts.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from squall.model.program.acts.act import Act
from squall.model.program.operations import KINDS
from squall.model.program.program import Call, Leaf, Program, beside
from squall.model.program.validated import unchecked

#: calls, and kinds of operations, that are tried instead of others: the simplest first
SIMPLE_CALLS: tuple[Call, ...] = ("local", "sync", "async", "remote")
SIMPLE_KINDS = tuple(kind.name for kind in KINDS.values() if kind.simple)


def chunks(count: int) -> Iterator[range]:
    """Stretches of ``count`` things to leave out: all, halves, quarters, down to single ones."""
    length = count
    while length:
        for start in range(0, count, length):
            yield range(start, min(start + length, count))
        length //= 2


def without(things: Sequence[Any], gone: Iterable[int]) -> tuple[Any, ...]:
    """The things but those at these places."""
    places = set(gone)
    return tuple(thing for at, thing in enumerate(things) if at not in places)


def simplifications(thing: Any) -> Iterator[Any]:
    """Copies of a tree of dataclasses in which one field is simpler: at its default, with fewer
    things in it, or a smaller number."""
    for field in fields(thing):
        value = getattr(thing, field.name)
        for simpler in _simplified_values(thing, field.name, value, field.default):
            yield unchecked(thing, **{field.name: simpler})


_STRUCTURE = frozenset({"ops", "leaves", "trainers", "steps", "backwards", "roots", "inputs"})


def _simplified_values(owner: Any, name: str, value: Any, default: Any) -> Iterator[Any]:
    if default is not MISSING and value != default:
        yield default
    if isinstance(value, tuple):
        if name not in _STRUCTURE:
            for gone in chunks(len(value)):
                yield without(value, gone)
        for at, each in enumerate(value):
            if isinstance(each, Act):  # what is done inside it, without it
                yield (*value[:at], *each.acts, *each.then, *value[at + 1 :])
            if is_dataclass(each):
                for simpler in simplifications(each):
                    yield (*value[:at], simpler, *value[at + 1 :])
    elif is_dataclass(value):
        for simpler in simplifications(value):
            yield simpler
    elif isinstance(value, int) and not isinstance(value, bool) and name in ("times", "seed"):
        yield from (smaller for smaller in (1, value // 2) if smaller < value)
    elif isinstance(owner, Leaf) and name == "shape" and value:
        yield from ((2,), (1,))


def size(program: Program) -> int:
    """How large a program is: its workers, and every part that it is made of."""
    count = program.workers + len(program.leaves) + len(program.trainers)
    for _, _, step in program.steps:
        count += 1 + len(step.ops) + sum(len(op.inputs) + len(op.via) for op in step.ops)
        count += sum(1 + len(backward.roots) for backward in step.backwards)
        count += sum(thing.size for _, _, thing in beside(step))
    return count


def complexity(thing: Any) -> int:
    """How much of a program is not at its simplest: fields that are no default, and numbers."""
    if isinstance(thing, bool) or thing is None:
        return int(thing is not None)
    if isinstance(thing, int):
        return min(abs(thing), 99)
    if isinstance(thing, tuple):
        return len(thing) + sum(complexity(each) for each in thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return _word(thing)
    count = 0
    for field in fields(thing):
        value = getattr(thing, field.name)
        if value != field.default:
            count += complexity(value) + 1
    return count


def _word(value: object) -> int:
    """The simpler calls and kinds count less than the others."""
    for words in (SIMPLE_CALLS, SIMPLE_KINDS):
        if value in words:
            return words.index(str(value))
    return 9
