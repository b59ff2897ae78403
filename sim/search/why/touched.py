"""What lines of the user's touch that others may touch as well: variables of modules and closures, attributes,
keys of a store; and which of two pieces of code touch the same."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

from squall.sim.search.why.executed import Executed
from squall.sim.search.why.witness import Place

#: methods that change what they are called on; so do those whose names end with an underscore
_CHANGING = frozenset(
    [
        "add",
        "append",
        "appendleft",
        "clear",
        "compare_set",
        "delete_key",
        "difference_update",
        "discard",
        "extend",
        "fill",
        "insert",
        "pop",
        "popitem",
        "popleft",
        "put",
        "put_nowait",
        "remove",
        "reverse",
        "set",
        "setdefault",
        "sort",
        "step",
        "update",
        "write",
    ]
)
#: methods of the stores that processes share, which each knows by a variable of its own
_OF_STORES = frozenset(
    [
        "add",
        "append",
        "check",
        "compare_set",
        "delete_key",
        "get",
        "multi_get",
        "multi_set",
        "set",
        "wait",
    ]
)
_NO_VALUES = (ModuleType, FunctionType, BuiltinFunctionType, type)


Kind = Literal["name", "attribute", "store"]


class Touch(NamedTuple):
    """A line that touches something shared: a variable of a module or a closure, an attribute of some object, or
    what may be a store of all processes."""

    kind: Kind
    name: str
    writes: bool
    place: Place


class Shared(NamedTuple):
    """Something that two pieces of code touch, at least one of which changes it."""

    kind: Kind
    name: str
    first: Place
    second: Place
    #: whether each changes it
    first_writes: bool
    second_writes: bool


def touches(
    lines: Iterable[Executed], globals: Mapping[CodeType, Mapping[str, Any]]
) -> list[Touch]:
    """What these lines touch, in order."""
    found: dict[Touch, None] = {}
    for each in lines:
        file = each.code.co_filename
        place = Place(file, each.line, each.code.co_name)
        names = globals.get(each.code, {})
        for kind, name, writes in _of_line(file, each.line):
            shared = kind != "name" or not _is_local(name, each.code)
            if shared and (kind == "attribute" or not isinstance(names.get(name), _NO_VALUES)):
                found[Touch(kind, name, writes, place)] = None
    return list(found)


def both(first: list[Touch], second: list[Touch], *, stores: bool) -> Shared | None:
    """What both touch and one of them changes, best what only one does. ``stores``: they are of different
    processes, which share stores and nothing else."""
    found = [
        Shared(one.kind, one.name, one.place, other.place, one.writes, other.writes)
        for other in second
        for one in first
        if (one.kind, one.name) == (other.kind, other.name) and (one.writes or other.writes)
        if (one.kind == "store") == stores
    ]
    return max(found, key=lambda each: each.first_writes != each.second_writes, default=None)


def _is_local(name: str, code: CodeType) -> bool:
    if code.co_name == "<module>":
        return False
    return name in code.co_varnames and name not in code.co_cellvars


@lru_cache(maxsize=4096)
def _of_line(file: str, line: int) -> tuple[tuple[Kind, str, bool], ...]:
    found: dict[tuple[Kind, str], bool] = {}
    for kind, name, writes in _by_line(file).get(line, ()):
        found[kind, name] = found.get((kind, name), False) or writes
    return tuple((kind, name, writes) for (kind, name), writes in found.items())


@lru_cache(maxsize=64)
def _by_line(file: str) -> dict[int, list[tuple[Kind, str, bool]]]:
    """By line: what it touches."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    found: dict[int, list[tuple[Kind, str, bool]]] = {}
    for node in ast.walk(tree):
        for base, writes in _touched(node):
            is_store = isinstance(node, ast.Call) and _method(node) in _OF_STORES
            if isinstance(base, ast.Name):
                kinds: tuple[Kind, ...] = ("name", "store") if is_store else ("name",)
                name = base.id
            elif isinstance(base, ast.Attribute):
                kinds = ("attribute", "store") if is_store else ("attribute",)
                name = base.attr
            else:
                continue
            found.setdefault(base.lineno, []).extend((kind, name, writes) for kind in kinds)
    return found


def _method(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _touched(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """What a piece of syntax touches, and whether it changes that."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method = _method(node)
        yield _base(node.func.value), method in _CHANGING or method.endswith("_")
    elif isinstance(node, ast.Subscript):
        yield _base(node), not isinstance(node.ctx, ast.Load)
    elif isinstance(node, ast.AugAssign):
        yield _base(node.target), True
    elif isinstance(node, ast.Name | ast.Attribute):
        yield node, not isinstance(node.ctx, ast.Load)


def _base(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node
