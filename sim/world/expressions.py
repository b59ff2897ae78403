"""What a frame is at, in its author's words: the expression that runs, and what ``with`` statements around it hold."""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterator
from functools import cache
from itertools import islice
from types import CodeType, FrameType, MemberDescriptorType, ModuleType
from typing import Any

#: begin and end: line and column of each
_Span = tuple[int, int, int, int]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_UNKNOWN = object()


def span_of(code: CodeType, instruction: int) -> _Span | None:
    """Where the source of an instruction (``f_lasti``) is: columns count bytes."""
    found = next(islice(code.co_positions(), max(instruction, 0) // 2, None), None)
    if found is None or None in found:
        return None
    first, last, left, right = found
    return first, left, last, right  # type: ignore[return-value]


def source_of(code: CodeType, instruction: int) -> str:
    """The expression of an instruction, in one line; "" if it is not known."""
    span = span_of(code, instruction)
    if span is None:
        return ""
    first, left, last, right = span
    lines = [linecache.getline(code.co_filename, n) for n in range(first, last + 1)]
    lines[-1] = lines[-1].encode()[:right].decode(errors="replace")
    lines[0] = lines[0].encode()[left:].decode(errors="replace")
    return " ".join(line.strip() for line in lines)


def expression_of(frame: FrameType) -> ast.expr | None:
    """What a frame evaluates: a call, or what a ``with`` statement enters."""
    entered = _entered(frame)
    if entered is not None:
        statement, number = entered
        return statement.items[number].context_expr
    try:
        return ast.parse(source_of(frame.f_code, frame.f_lasti), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _entered(frame: FrameType) -> tuple[ast.With, int] | None:
    """The ``with`` statement that a frame enters, and with which of its items; None if it enters none. Some versions
    of Python take the whole statement for the source of that."""
    code, span = frame.f_code, span_of(frame.f_code, frame.f_lasti)
    tree = _tree(code.co_filename)
    if tree is None or span is None or dis.opname[code.co_code[frame.f_lasti]] != "BEFORE_WITH":
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and (*_start(node), *_end(node)) == span:
            entering = [
                each.offset
                for each in dis.get_instructions(code)
                if each.opname == "BEFORE_WITH" and span_of(code, each.offset) == span
            ]
            # A statement has its instructions once more where it is in a finally block.
            return node, entering.index(frame.f_lasti) % len(node.items)
    return None


def value_of(frame: FrameType, expression: ast.expr | None) -> Any:
    """What a name or an attribute of one stands for in a frame, found without running code; None if it is not
    known."""
    found = _value(frame, expression)
    return None if found is _UNKNOWN else found


def _value(frame: FrameType, expression: ast.expr | None) -> Any:
    if isinstance(expression, ast.Name):
        scopes = frame.f_locals, frame.f_globals
        return next((each[expression.id] for each in scopes if expression.id in each), _UNKNOWN)
    if isinstance(expression, ast.Attribute):
        return _attribute(_value(frame, expression.value), expression.attr)
    if isinstance(expression, ast.Subscript):
        whole, key = _value(frame, expression.value), _value(frame, expression.slice)
        if type(whole) in (dict, list, tuple) and type(key) in (str, int):
            try:
                return whole[key]
            except (IndexError, KeyError, TypeError):
                return _UNKNOWN
    return expression.value if isinstance(expression, ast.Constant) else _UNKNOWN


def _attribute(thing: Any, name: str) -> Any:
    if thing is _UNKNOWN:
        return _UNKNOWN
    own = getattr(thing, "__dict__", {})
    if name in own:
        return own[name]
    kinds = [] if isinstance(thing, ModuleType) else type.mro(type(thing))
    if isinstance(thing, type):
        kinds = type.mro(thing)
    for kind in kinds:
        found = vars(kind).get(name, _UNKNOWN)
        if isinstance(found, MemberDescriptorType):
            return getattr(thing, name, _UNKNOWN)
        if found is not _UNKNOWN:
            return found
    return _UNKNOWN


def held_by(frame: FrameType) -> Iterator[tuple[Any, str, int]]:
    """What ``with`` statements hold in which a frame is, and what it has acquired before and not released: the
    object, how it is called there, and the line."""
    span = span_of(frame.f_code, frame.f_lasti)
    tree = _tree(frame.f_code.co_filename)
    if span is None or tree is None:
        return
    at, entered = span[:2], _entered(frame)
    if entered is not None:
        at = _start(entered[0].items[entered[1]].context_expr)
    held: list[tuple[ast.expr, int]] = []
    released: dict[str, int] = {}
    for node in ast.walk(_scope(tree, frame.f_lineno)):
        if isinstance(node, ast.With | ast.AsyncWith) and _start(node) <= at < _end(node):
            expressions = [item.context_expr for item in node.items]
            held += [(each, each.lineno) for each in expressions if _end(each) <= at]
        elif (
            isinstance(node, ast.Call) and _end(node) <= at and isinstance(node.func, ast.Attribute)
        ):
            if node.func.attr == "acquire":
                held.append((node.func.value, node.lineno))
            elif node.func.attr == "release":
                name = ast.unparse(node.func.value)
                released[name] = max(node.lineno, released.get(name, 0))
    for expression, line in held:
        name, value = ast.unparse(expression), _value(frame, expression)
        if value is not _UNKNOWN and released.get(name, 0) < line:
            yield value, name, line


def made_at(frame: FrameType, expression: ast.expr | None) -> int | None:
    """The only line of the file that gives something its name by a call; None if there is none, or several."""
    tree = _tree(frame.f_code.co_filename)
    if tree is None or not isinstance(expression, ast.Name | ast.Attribute):
        return None
    name = ast.unparse(expression)
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(ast.unparse(target) == name for target in node.targets)
    ]
    return lines[0] if len(lines) == 1 else None


@cache
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _tree(file: str) -> ast.Module | None:
    return _parsed("".join(linecache.getlines(file)))


def _scope(tree: ast.Module, line: int) -> ast.AST:
    """The innermost function that a line is in."""
    scope: ast.AST = tree
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and node.lineno <= line <= (node.end_lineno or 0):
            scope = node  # the walk comes to inner ones later
    return scope


def _start(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset
