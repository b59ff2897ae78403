"""Planted bugs that nobody chose: small changes of ``real/``, drawn by a seed.

Whoever plants a bug knows what to look for, and so does whoever wrote the checks. Changes that are
drawn from the source itself have neither in mind: how many of them a campaign notices is a measure of
it, and those that survive show what it is blind to. Some make no difference to anybody, which only
a look at each can tell; none is expected to be noticed.

A change is within one line, and what only reports what happens (a trace, a log, an observer) stays
as it is:

- a condition is inverted, or never holds
- one side of an ``and``, or of an ``or``, is left out
- a comparison includes its limit, or no longer does; equal and not equal change places
- a call whose result nobody uses is left out
- an attribute or an element is not set
- 0, 1 or 2 is one more; True and False change places
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from squall import real
from squall.sim.scenarios.patch import PatchError
from squall.sim.search.mutants.mutant import DRAWN, Mutant

UNKNOWN = "drawn: nobody has looked whether it makes a difference"

#: of squall/real: packages of which everything is drawn from, and single modules
_PACKAGES = ("autograd", "rpc")
_MODULES = ("future",)
#: they describe what is there, or hand it on to PyTorch and users, or serve a GPU alone
_NOT_DRAWN = frozenset(
    (
        "describe", "node_abi", "input_abi", "validate", "utils", "wire_names", "transport",
        "public", "constants", "functional_twins", "device_copies", "devices", "device_threads",
        "node_streams", "profiled_pass",
    )
)  # fmt: skip
#: a change in a line with one of these changes a report, or nothing
_REPORTS = ("tracer", "emit", "logger", "observer", "warn", "trace_", "TYPE_CHECKING")
_NOT_FUNCTIONS = frozenset(("__repr__", "__str__", "get_debug_info", "get_metrics"))
_OTHER_COMPARISON: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
}
_MOST_COUNTED = 2


class Change(NamedTuple):
    """A line of a function, as it is and as it would be; both without indentation."""

    place: str
    line: int
    old: str
    new: str


def drawn_mutants(seed: int, count: int) -> list[Mutant]:
    """``count`` of them, one for a function at most, or as many as there are functions."""
    dice = random.Random(f"drawn mutants {seed}")
    by_place: dict[str, list[Change]] = {}
    for change in changes():
        by_place.setdefault(change.place, []).append(change)
    places = sorted(by_place)
    dice.shuffle(places)
    drawn: list[Mutant] = []
    for place in places:
        if len(drawn) == count:
            break
        found = by_place[place]
        dice.shuffle(found)
        mutant = next(filter(_fits, map(_mutant, found)), None)
        if mutant is not None:
            drawn.append(mutant)
    return drawn


def changes() -> Iterator[Change]:
    """All that can be drawn, in the order of the source."""
    for module, file in _sources():
        text = file.read_text("utf-8")
        yield from _in_body(ast.parse(text).body, module, "", text)


def _sources() -> Iterator[tuple[str, Path]]:
    (home,) = map(Path, real.__path__)
    for package in _PACKAGES:
        for file in sorted((home / package).glob("*.py")):
            if file.stem not in _NOT_DRAWN:
                yield f"{package}.{file.stem}", file
    for module in _MODULES:
        yield module, home / f"{module}.py"


def _in_body(body: list[ast.stmt], module: str, within: str, text: str) -> Iterator[Change]:
    lines = text.splitlines()
    for found in body:
        if isinstance(found, ast.ClassDef):
            yield from _in_body(found.body, module, f"{within}{found.name}.", text)
        elif isinstance(found, ast.FunctionDef) and found.name not in _NOT_FUNCTIONS:
            place = f"{module}:{within}{found.name}"
            for node in ast.walk(found):
                for part, new in _replaced(node, text):
                    line = lines[part.lineno - 1]
                    if part.lineno != part.end_lineno or any(word in line for word in _REPORTS):
                        continue
                    changed = line[: part.col_offset] + new + line[part.end_col_offset :]
                    if changed != line:
                        old, changed = line.strip() + "\n", changed.strip() + "\n"
                        yield Change(place, part.lineno, old, changed)


def _replaced(node: ast.AST, text: str) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What may stand in the place of a node, or of a part of it."""

    def said(part: ast.AST) -> str:
        return ast.get_source_segment(text, part) or ""

    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield test, f"not ({said(test)})"
            if isinstance(node, ast.If) and not node.orelse:
                yield test, "False"
        case ast.BoolOp(values=[one, other]):
            yield node, said(one)
            yield node, said(other)
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            if type(operator) in _OTHER_COMPARISON:
                yield node, f"{said(left)} {_OTHER_COMPARISON[type(operator)]} {said(right)}"
        case (
            ast.Expr(value=ast.Call())
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
            | ast.AugAssign(target=ast.Attribute() | ast.Subscript())
        ):
            yield node, "pass"
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(value)) if 0 <= value <= _MOST_COUNTED:
            yield node, str(value + 1)


def _mutant(change: Change) -> Mutant:
    path = change.place.replace(":", ".").replace(".", "-").replace("_", "-").lower()
    return Mutant(
        name=f"drawn-{path}-{change.line}",
        place=change.place,
        old=change.old,
        new=change.new,
        wrong=f"line {change.line}: {change.old.strip()!r} is {change.new.strip()!r}",
        origin=DRAWN,
        needs="PLEXKQ",
        unseen=UNKNOWN,
    )


def _fits(mutant: Mutant) -> bool:
    """Whether the change can be made: its line is there once, the result is Python, and other code, which
    that of a default value is not: it was computed when the function was made."""
    try:
        return mutant.code() != replace(mutant, new=mutant.old).code()
    except PatchError:
        return False
