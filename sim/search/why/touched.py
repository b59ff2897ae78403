"""What lines of the user's touch that others may touch as well: variables of modules and closures, attributes,
keys of a store; and which of two pieces of code touch the same."""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Literal, NamedTuple

from squall.real.future import Future
from squall.real.rpc.py_rref import RRef
from squall.sim.scripts.compat.stores import Store
from squall.sim.search.why.executed import Changes, Executed, Lines, Part, Stored
from squall.sim.world.places import CodePlace, is_library

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
        "notify",
        "notify_all",
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
#: methods that put something into a container, and that take something out
_ADDING = frozenset(
    ["add", "append", "appendleft", "extend", "insert", "put", "put_nowait", "setdefault"]
)
_TAKING = frozenset(["clear", "discard", "get_nowait", "pop", "popitem", "popleft", "remove"])
#: times that a line puts something into what is said to grow, at least
_OFTEN = 3
_PLAIN = (int, float, complex, str, bytes, type(None))
_KEEPING = (Future, RRef)
#: of stores the keys are known that are used
_NO_VALUES = (ModuleType, FunctionType, BuiltinFunctionType, type, Store)


Kind = Literal["name", "attribute"] | Part
#: what processes share
OF_STORES: tuple[Kind, ...] = ("presence", "value")


class Touch(NamedTuple):
    """A line that touches something shared: a variable of a module or a closure, an attribute of some object, or a key
    of a store (whether it is there, or its value), with a method of that, ``by`` a process."""

    kind: Kind
    name: str
    how: Changes
    place: CodePlace
    store: str = ""
    method: str = ""
    by: str = ""

    @property
    def writes(self) -> bool:
        return self.how != "read"

    @property
    def thing(self) -> tuple[Kind, str, str]:
        """What it touches."""
        return self.kind, self.store, self.name


class Shared(NamedTuple):
    """Something that two pieces of code touch, at least one of which changes it."""

    first: Touch
    second: Touch

    @property
    def name(self) -> str:
        return self.first.name


def touches(acts: Iterable[Executed | Stored], seen: Lines) -> list[Touch]:
    """What these touch, in order. ``seen``: the run that they are of."""
    found: dict[Touch, None] = {}
    for each in acts:
        if isinstance(each, Stored):
            used = each.used
            touch = Touch(
                each.part, used.key, each.how, used.place, used.store, used.method, each.by
            )
            found[touch] = None
            continue
        file = each.code.co_filename
        place = CodePlace(file, each.line, each.code.co_name)
        names = seen.globals.get(each.code, {})
        for kind, name, writes in _of_line(file, each.line):
            shared = kind != "name" or not _is_local(name, each.code)
            if shared and (kind == "attribute" or not isinstance(names.get(name), _NO_VALUES)):
                found[Touch(kind, name, "write" if writes else "read", place)] = None
    return list(found)


def growing(seen: Lines, *, certain: bool) -> dict[str, list[CodePlace]]:
    """Containers of the user's into which a line has put something again and again, and from which none has taken: by
    their names, these lines. What is known to keep nothing alive, as a number, is not meant; ``certain``: only what
    is known to do so."""
    times: Counter[CodePlace] = Counter()
    codes: dict[CodePlace, CodeType] = {}
    for each in seen.executed:
        place = CodePlace(each.code.co_filename, each.line, each.code.co_name)
        times[place] += 1
        codes[place] = each.code
    found: dict[str, list[CodePlace]] = {}
    taken = set()
    for touch in touches(seen.executed, seen):
        place = touch.place
        for effect in _effects(place.file).get((place.line, touch.name), ()):
            if not effect.adds:
                taken.add(touch.name)
                continue
            code = codes[place]
            is_users = not _is_librarys(seen.globals.get(code, {}).get(effect.within))
            kind = seen.types.get((code, place.line), {}).get(effect.what, object)
            keeps = issubclass(kind, _KEEPING) if certain else not issubclass(kind, _PLAIN)
            if times[place] >= _OFTEN and is_users and keeps:
                found.setdefault(touch.name, []).append(place)
    return {name: places for name, places in found.items() if name not in taken}


def _is_librarys(module: object) -> bool:
    file = getattr(module, "__file__", None) or "<built-in>"
    return isinstance(module, ModuleType) and is_library(file)


class _Effect(NamedTuple):
    """Something is put into a container, or taken out. ``within``: the variable that leads to the container; ``what``:
    the one whose value is put there, if it is the value of one."""

    adds: bool
    within: str
    what: str


@lru_cache(maxsize=64)
def _effects(file: str) -> dict[tuple[int, str], set[_Effect]]:
    """By line and name: what is put into a container there, or taken out."""
    found: dict[tuple[int, str], set[_Effect]] = {}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if method in _ADDING or method in _TAKING:
                _note(found, node.func.value, method in _ADDING, node.args[-1:])
        elif isinstance(node, ast.Assign | ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    # What is set again and again under one key makes nothing grow.
                    is_set = isinstance(node, ast.Assign)
                    if not (is_set and isinstance(target.slice, ast.Constant)):
                        value = [node.value] if isinstance(node, ast.Assign) else []
                        _note(found, _base(target), is_set, value)
    return found


def _note(
    found: dict[tuple[int, str], set[_Effect]], base: ast.AST, adds: bool, value: list[ast.expr]
) -> None:
    name = base.id if isinstance(base, ast.Name) else getattr(base, "attr", None)
    if name is not None:
        within: ast.AST = base
        while isinstance(within, ast.Attribute | ast.Subscript):
            within = within.value
        what = value[0].id if value and isinstance(value[0], ast.Name) else ""
        effect = _Effect(adds, getattr(within, "id", ""), what)
        found.setdefault((base.lineno, name), set()).add(effect)  # type: ignore[attr-defined]


def both(first: list[Touch], second: list[Touch], *, keys: bool) -> Shared | None:
    """What both touch and one of them changes, best what only one does. ``keys``: they are of different
    processes, which share stores and nothing else."""
    found = [
        Shared(one, other)
        for other in second
        for one in first
        if one.thing == other.thing and (one.writes or other.writes)
        if (one.kind in OF_STORES) == keys
    ]
    return max(found, key=lambda each: each.first.writes != each.second.writes, default=None)


def by_name(touched: list[Touch]) -> str:
    """What is touched, each with its lines."""
    lines: dict[str, dict[str, None]] = {}
    for each in touched:
        lines.setdefault(each.name, {})[str(each.place)] = None
    return ", ".join(f"`{name}` ({', '.join(places)})" for name, places in lines.items())


def touching(shared: Shared) -> str:
    """Which lines touch the same."""
    one, two = (
        f"{'changed' if each.writes else 'used'} in `{each.place.function}` ({each.place})"
        for each in shared
    )
    return f"Both touch `{shared.name}`: it is {one} and {two}."


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
    found: dict[int, list[tuple[Kind, str, bool]]] = {}
    for node in ast.walk(tree(file)):
        for base, writes in _touched(node):
            if isinstance(base, ast.Name):
                found.setdefault(base.lineno, []).append(("name", base.id, writes))
            elif isinstance(base, ast.Attribute):
                found.setdefault(base.lineno, []).append(("attribute", base.attr, writes))
    return found


def tree(file: str) -> ast.AST:
    """What a file says; nothing if it is no Python."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


def _touched(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """What a piece of syntax touches, and whether it changes that."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method = node.func.attr
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
