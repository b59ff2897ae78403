"""Who holds an object: ways to it from globals of a user's modules, and variables of functions that run.

Imports no torch.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from squall.sim.world.places import file_name, frames_of, is_library

#: objects that are looked at, and containers that are named, at most
_MOST, _CONTAINERS = 20_000, 3
_PLAIN = (str, bytes, int, float, bool, complex, type(None), type, ModuleType)
#: the last step of a path
_LAST = re.compile(r"(\[[^][]*\]|\{\.\.\.\})$")
#: a way to an object, with {} for what is on it, and the object
Root = tuple[str, object]


def of_module(module: ModuleType) -> Iterator[Root]:
    """Its globals."""
    file = os.path.basename(getattr(module, "__file__", None) or module.__name__)
    for name, value in list(vars(module).items()):
        if not name.startswith("__"):
            yield f"{name}{{}}, a global of {file}", value


def of_frames(frame: FrameType | None) -> Iterator[Root]:
    """The variables of functions of the user's in a stack, of which this is the innermost."""
    for each in frames_of(frame):
        code = each.f_code
        if not is_library(code.co_filename) and code.co_name != "<module>":
            place = f"{file_name(code.co_filename)}:{each.f_lineno}"
            for name, value in list(each.f_locals.items()):
                yield f"{name}{{}} of {code.co_name}(), which is at {place}", value


def held(roots: Iterable[Root], is_wanted: Callable[[object], bool]) -> Iterator[Root]:
    """Wanted objects that roots lead to, each by one of the shortest ways."""
    found = [(way, "", value) for way, value in roots]
    seen = {id(value) for _, _, value in found}
    told: set[int] = set()
    for way, path, value in found:  # grows while it is walked
        if is_wanted(value):
            if id(value) not in told:
                told.add(id(value))
                yield way.replace("{}", path), value
            continue
        if len(found) > _MOST:
            continue
        for step, inner in _inside(value):
            if not isinstance(inner, _PLAIN) and id(inner) not in seen:
                seen.add(id(inner))
                found.append((way, path + step, inner))


def containers(roots: Iterable[Root], is_wanted: Callable[[object], bool]) -> list[str]:
    """What holds wanted objects, those in which several are."""
    found = Counter(_container_of(way) for way, _ in held(roots, is_wanted))
    return [name for name, count in found.most_common(_CONTAINERS) if count > 1]


def _container_of(way: str) -> str:
    """What an object is in, by a way to it: ``cache``, a global of leak.py, of ``cache[3]``."""
    path, comma, rest = way.partition(", ") if ", a global of " in way else way.partition(" of ")
    return f"`{_LAST.sub('', path)}`{comma}{rest}"


def _inside(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r:.40}]", inner) for key, inner in list(value.items()))
    elif isinstance(value, list | tuple):
        yield from ((f"[{at}]", inner) for at, inner in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("{...}", inner) for inner in value)
    elif isinstance(value, MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield ".__closure__", cell.cell_contents
            except ValueError:
                continue  # it is empty
    else:
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict) and not is_library(_file_of(type(value))):
            yield from ((f".{name}", inner) for name, inner in list(attributes.items()))


def _file_of(kind: type) -> str:
    module = sys.modules.get(kind.__module__)
    return getattr(module, "__file__", None) or "<built-in>"
