"""Where a value was chosen that a call was given: the line that had set its variable last."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from squall.sim.search.why.executed import Executed
from squall.sim.search.why.touched import tree
from squall.sim.world.places import Place


def origin(keyword: str, call: Place, lines: Iterable[Executed]) -> Place | None:
    """``lines``: of the task that makes the ``call``, up to it. None where it is no variable, or was a parameter."""
    name = _variable(keyword, call)
    found = [
        each
        for each in lines
        if (each.code.co_filename, each.code.co_name) == (call.file, call.function)
        and each.line in _set_at(call.file, name)
    ]
    return Place(call.file, found[-1].line, call.function) if name and found else None


def _variable(keyword: str, call: Place) -> str:
    """The variable that a call on that line is given by that keyword."""
    for node in ast.walk(tree(call.file)):
        if isinstance(node, ast.Call) and node.lineno <= call.line <= (node.end_lineno or 0):
            for each in node.keywords:
                if each.arg == keyword and isinstance(each.value, ast.Name):
                    return each.value.id
    return ""


def _set_at(file: str, name: str) -> set[int]:
    """The lines that set a variable."""
    return {
        node.lineno
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    }
