"""Where a value was chosen that a call was given: the line that had set its variable last, in the function that makes the
call or in one that has called that."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from squall.sim.search.why.executed import Executed
from squall.sim.search.why.touched import tree
from squall.sim.world.places import CodePlace


def origin(keyword: str, call: CodePlace, lines: Sequence[Executed]) -> CodePlace | None:
    """``lines``: of the task that makes the ``call``, up to it. None where it is no variable that a line has set."""
    given = [a.value for each in _calls(call) for a in each.keywords if a.arg == keyword]
    return _set_last(given[0], call, lines) if given else None


def _set_last(value: ast.expr, at: CodePlace, lines: Sequence[Executed]) -> CodePlace | None:
    """The line that has set the variable last that a call at that line is given."""
    if not isinstance(value, ast.Name):
        return None
    for number in range(len(lines) - 1, -1, -1):
        each = lines[number]
        code = each.code
        if (code.co_filename, code.co_name) == (at.file, at.function):
            if each.line in _set_at(at.file, value.id):
                return CodePlace(at.file, each.line, at.function)
        else:
            caller = CodePlace(code.co_filename, each.line, code.co_name)
            passed = _passed(value.id, at, caller)
            if passed is not None:
                return _set_last(passed, caller, lines[:number])
    return None


def _passed(name: str, function: CodePlace, caller: CodePlace) -> ast.expr | None:
    """What a line that calls the function gives it as the parameter of that name."""
    parameters = [
        argument.arg
        for node in ast.walk(tree(function.file))
        if isinstance(node, ast.FunctionDef) and node.name == function.function
        for argument in node.args.args
    ]
    for call in _calls(caller):
        if (
            name in parameters
            and isinstance(call.func, ast.Name)
            and call.func.id == function.function
        ):
            by_name = [each.value for each in call.keywords if each.arg == name]
            return next(iter([*by_name, *call.args[parameters.index(name) :]]), None)
    return None


def calls(place: CodePlace, function: str) -> bool:
    """Whether a line calls a function of that name."""
    called = [each.func for each in _calls(place)]
    return any(getattr(each, "attr", getattr(each, "id", "")) == function for each in called)


def _calls(place: CodePlace) -> list[ast.Call]:
    """The calls that go over that line."""
    return [
        node
        for node in ast.walk(tree(place.file))
        if isinstance(node, ast.Call) and node.lineno <= place.line <= (node.end_lineno or 0)
    ]


def _set_at(file: str, name: str) -> set[int]:
    """The lines that set a variable."""
    return {
        node.lineno
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    }
