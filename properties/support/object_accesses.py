"""What steps read and write of the objects of real/, attribute by attribute.

What an exploration says that steps touch is told by hand, in a few places. This records what they do
touch, without being told: each attribute of each object of a class of real/ that a step reads or
writes. A container that is looked at counts as written, for nothing tells what is done to it.
Slow: for tests.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from types import FunctionType
from typing import Any, NamedTuple

from squall.properties.support.explored import Recorded
from squall.sim.world.controlled_time import Entry, Footprint
from squall.sim.world.delivery import Delivery

_REAL = "squall.real."
_CONTAINERS = (dict, list, set, deque, bytearray)


class Place(NamedTuple):
    """An attribute of an object, which is said by its number: ids are used again."""

    object: int
    kind: str
    attribute: str


class Conflict(NamedTuple):
    """Two steps that need not be in this order touch this, and one of them writes.

    ``steps``: how many of the two are arrivals of messages.
    """

    attribute: str
    arrivals: int


class Accesses:
    """What the step that is under way has touched so far: whether it has written it."""

    def __init__(self) -> None:
        self.step: dict[Place, bool] = {}
        #: by id of an object that lives, its number
        self._numbers: dict[int, int] = {}
        self._refs: dict[int, weakref.ref[Any]] = {}
        self._seen = 0

    def born(self, thing: object) -> int:
        """A new object is there, whose id may have been that of another one."""
        self._seen = number = self._seen + 1
        at = id(thing)
        self._numbers[at] = number
        with contextlib.suppress(TypeError):  # not of every class

            def died(_: object) -> None:
                if self._numbers.get(at) == number:
                    del self._numbers[at]

            self._refs[number] = weakref.ref(thing, died)
        return number

    def touched(self, thing: object, attribute: str, *, written: bool) -> None:
        kind = type(thing)
        if not kind.__module__.startswith(_REAL):
            return  # of sim/, which derives from it: its tasks
        number = self._numbers.get(id(thing)) or self.born(thing)
        place = Place(number, kind.__qualname__, attribute)
        self.step[place] = written or self.step.get(place, False)


class RecordedWithAccesses(Recorded):
    """Keeps what each step touched, too."""

    def __init__(self, accesses: Accesses, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._accesses = accesses
        #: of each step, what it touched, and whether it is the arrival of a message
        self.touched: list[tuple[dict[Place, bool], bool]] = []

    def done(self, name: int, entry: Entry | None, footprint: Footprint) -> None:
        super().done(name, entry, footprint)
        arrival = entry is not None and type(entry.event) is Delivery
        self.touched.append((self._accesses.step, arrival))
        self._accesses.step = {}

    def conflicts(self) -> Iterator[Conflict]:
        """What steps have in common that are taken for independent."""
        users: dict[Place, list[int]] = {}
        for step, (touched, _) in enumerate(self.touched):
            for place in touched:
                users.setdefault(place, []).append(step)
        for place, steps in users.items():
            for one, other in _pairs(steps):
                if self.order.before[other] >> one & 1:
                    continue
                (first, is_arrival), (second, also) = self.touched[one], self.touched[other]
                if first[place] or second[place]:
                    yield Conflict(f"{place.kind}.{place.attribute}", is_arrival + also)


def _pairs(steps: Sequence[int]) -> Iterator[tuple[int, int]]:
    for at, other in enumerate(steps):
        for one in steps[:at]:
            yield one, other


@contextmanager
def accesses() -> Iterator[Accesses]:
    """Let all objects of classes of real/ tell what of them is touched in the block."""
    found = Accesses()
    changed: list[tuple[type, str, Any]] = []
    classes = _classes()
    for each in classes:
        for name, make in _WATCHED.items():
            if name != "__init__" and any(base in classes for base in each.__mro__[1:]):
                continue  # it has that of its base
            changed.append((each, name, each.__dict__.get(name)))
            setattr(each, name, make(getattr(each, name), found))
    try:
        yield found
    finally:
        for each, name, before in changed:
            if before is None:
                delattr(each, name)
            else:
                setattr(each, name, before)


def _classes() -> dict[type, None]:
    """Those that are written in real/ and have state of their own."""
    found: dict[type, None] = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith(_REAL):
            continue
        for each in list(vars(module).values()):
            if not isinstance(each, type) or each.__module__ != name:
                continue
            if not issubclass(each, (tuple, Enum, BaseException)) and type(each) is type:
                found[each] = None
    return found


def _reading(original: Callable[..., Any], found: Accesses) -> Callable[..., Any]:
    def read(self: Any, name: str) -> Any:
        value = original(self, name)
        if name.startswith("__"):
            return value
        of_class = getattr(type(self), name, None)
        if not isinstance(of_class, (FunctionType, property)):
            found.touched(self, name, written=isinstance(value, _CONTAINERS))
        return value

    return read


def _writing(original: Callable[..., Any], found: Accesses) -> Callable[..., Any]:
    def write(self: Any, name: str, *value: Any) -> None:
        found.touched(self, name, written=True)
        original(self, name, *value)

    return write


def _making(original: Callable[..., Any], found: Accesses) -> Callable[..., Any]:
    def make(self: Any, *args: Any, **options: Any) -> None:
        found.born(self)
        original(self, *args, **options)

    return make


_WATCHED = {
    "__init__": _making,
    "__getattribute__": _reading,
    "__setattr__": _writing,
    "__delattr__": _writing,
}
