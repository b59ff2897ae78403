"""An operation as PyTorch code: what its kind's ``run`` computes, read from the source of that.

Where ``run(op, x)`` is a single expression, that expression is written with the inputs' names in the
place of ``x[0]`` and ``x[1]``, and with the operation's fields as the constants that they are:
``x[0] * op.factor`` becomes ``y1 * 3``. Anything longer becomes a function of the script, which is
called with both.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from squall.model.program.source import (
    Definitions,
    NotPlainError,
    bound_in,
    names_of,
    tree_of,
)

#: what the inputs of a function are called, by how many there are
_PARAMETERS = {1: ("x",), 2: ("a", "b"), 3: ("a", "b", "c")}


def expression_of(
    run: Callable[..., Any],
    op: Any,
    inputs: Sequence[str],
    definitions: Definitions,
    name: str,
) -> str:
    """``run(op, x)`` as an expression of a script. ``inputs``: the expressions for ``x``.

    ``definitions`` gets what it needs, and, if ``run`` is more than an expression, a function
    called ``name``. Raises NotPlainError if ``run`` does something else with ``op`` than to read
    its fields, or uses what a script cannot have.
    """
    tree = tree_of(run)
    names = names_of(run)
    body = [tree.body] if isinstance(tree, ast.Lambda) else _without_docstring(tree.body)
    only = body[0].value if isinstance(body[0], ast.Return) else body[0]
    if len(body) == 1 and isinstance(only, ast.expr):
        fields = {
            field.name: _constant(getattr(op, field.name)) for field in dataclasses.fields(op)
        }
        given: list[ast.expr] = [ast.parse(each, mode="eval").body for each in inputs]
        inlined = _Inlined(_arguments(tree), fields, given, names).visit(_copied(only))
        return ast.unparse(definitions.plain(ast.fix_missing_locations(inlined), names))
    return _call(run, tree, op, inputs, definitions, name)


def _call(
    run: Callable[..., Any],
    tree: ast.FunctionDef,
    op: Any,
    inputs: Sequence[str],
    definitions: Definitions,
    name: str,
) -> str:
    """A call of ``run`` as a function of the script. It takes the inputs, and the fields of the
    operation that it looks at."""
    names = names_of(run)
    body = [_copied(line) for line in _without_docstring(tree.body)]
    taken = set().union(*map(bound_in, body))
    used = [field.name for field in dataclasses.fields(op) if _reads(body, tree, field.name)]
    wanted = _PARAMETERS.get(len(inputs), ())
    if not wanted or taken & set(wanted):
        wanted = tuple(f"x{number}" for number in range(len(inputs)))
    fields: dict[str, ast.expr] = {field: ast.Name(field, ast.Load()) for field in used}
    parameters: list[ast.expr] = [ast.Name(each, ast.Load()) for each in wanted]
    inlining = _Inlined(_arguments(tree), fields, parameters, names)
    body = [inlining.visit(line) for line in body]
    arguments = list(inputs)
    for field in used:
        value = getattr(op, field)
        value = getattr(torch, value) if field in inlining.dtypes else value
        arguments.append(definitions.text_of(value, field))
    key = (run, len(inputs))
    if key not in definitions.made:
        called = definitions.made[key] = definitions.free_name(name)
        function = ast.FunctionDef(
            name=called,
            args=ast.arguments(
                posonlyargs=[],
                args=[ast.arg(each) for each in (*wanted, *used)],
                kwonlyargs=[],
                kw_defaults=[],
                defaults=[],
            ),
            body=body,
            decorator_list=[],
            lineno=1,
        )
        plain = definitions.plain(ast.fix_missing_locations(function), names)
        definitions.texts[called] = ast.unparse(plain)
    return f"{definitions.made[key]}({', '.join(arguments)})"


def _arguments(tree: ast.FunctionDef | ast.Lambda) -> tuple[str, str]:
    op, x = (arg.arg for arg in tree.args.args)
    return op, x


def _copied(node: Any) -> Any:
    copy = ast.parse(ast.unparse(node)).body[0]
    return copy.value if isinstance(node, ast.expr) and isinstance(copy, ast.Expr) else copy


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    told = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if told and len(body) > 1 else body


def _reads(body: Sequence[ast.AST], tree: ast.FunctionDef, field: str) -> bool:
    op, _ = _arguments(tree)
    return any(
        isinstance(node, ast.Attribute) and node.attr == field and _is_name(node.value, op)
        for line in body
        for node in ast.walk(line)
    )


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _constant(value: object) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body if _is_plain(value) else ast.Constant(None)


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


class _Inlined(ast.NodeTransformer):
    """Puts expressions in the place of ``x[0]``, of ``x`` and of the fields of ``op``."""

    def __init__(
        self,
        arguments: tuple[str, str],
        fields: Mapping[str, ast.expr],
        inputs: Sequence[ast.expr],
        names: Mapping[str, object],
    ) -> None:
        self._op, self._x = arguments
        self._fields = fields
        self._inputs = inputs
        self._names = names
        #: fields that are looked up in a table of dtypes
        self.dtypes: set[str] = set()

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        at = node.slice
        if _is_name(node.value, self._x) and isinstance(at, ast.Constant):
            assert isinstance(at.value, int), "inputs are numbered"
            return self._inputs[at.value]
        if isinstance(node.value, ast.Name) and isinstance(at, ast.Attribute):
            table = self._names.get(node.value.id)
            of_dtypes = isinstance(table, dict) and all(
                isinstance(value, torch.dtype) for value in table.values()
            )
            if of_dtypes and _is_name(at.value, self._op):
                self.dtypes.add(at.attr)
                known = self._fields[at.attr]
                if not isinstance(known, ast.Constant):
                    return known
                return _expression(f"torch.{known.value!s}")
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return (
            self._fields[node.attr] if _is_name(node.value, self._op) else self.generic_visit(node)
        )

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == self._op:
            raise NotPlainError("the operation as a whole")
        if node.id == self._x and isinstance(node.ctx, ast.Load):
            return ast.Tuple(list(self._inputs), ast.Load())
        return node
