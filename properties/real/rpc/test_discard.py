"""The references in what nobody can read are found, whatever stands before them."""

from __future__ import annotations

import collections
import dataclasses
import enum
import io
import pickle
from typing import Any

import pytest

from squall.real.rpc import discard


class _Plain:
    def __init__(self) -> None:
        self.held = {1: [2]}


class _List(list[int]):
    pass


class _Slots:
    __slots__ = ("x",)

    def __init__(self) -> None:
        self.x = 1


@dataclasses.dataclass(frozen=True)
class _Frozen:
    number: int = 1


class _Color(enum.Enum):
    RED = 1


class _NewByName:
    def __new__(cls, *, number: int = 0) -> _NewByName:
        return object.__new__(cls)

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, int]]:
        return (), {"number": 1}


def _class_of(name: str) -> Any:
    raise NotImplementedError


class _Reference:
    """Is written as a reference is."""


class _Pickler(pickle.Pickler):
    """Writes classes by a call, as a script's are written, and references by their names."""

    def persistent_id(self, obj: Any) -> Any:
        return discard._NAME if obj is _Reference else None

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is _Reference:
            return _Reference, (7,)
        if isinstance(obj, type) and obj.__module__ == __name__ and obj is not _Reference:
            return _class_of, (obj.__name__,)
        return NotImplemented


_BEFORE = (
    _Plain(),
    _List([1, 2]),
    _Slots(),
    _Frozen(),
    _Color.RED,
    _NewByName(),
    collections.OrderedDict(a=1),
    collections.deque([1, 2]),
    collections.defaultdict(list, {1: [2]}),
    {_Plain(): frozenset({_Frozen()})},
    ValueError("x"),
)


@pytest.mark.parametrize("before", _BEFORE, ids=lambda each: type(each).__name__)
def test_it_is_found_behind(before: object) -> None:
    file = io.BytesIO()
    _Pickler(file, protocol=4).dump([before, _Reference(), before])
    assert discard._forks_in(file.getvalue()) == [7]
