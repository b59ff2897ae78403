"""A function as the statements that it comes to when some of its arguments are known.

``add_hook(out, hook)`` asks which hook it is to add. Where that is known, only the branch that is
taken is written: so whoever adds a hook there has written it for scripts too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from squall.model.program.source import Definitions, bound_in, names_of, tree_of


def statements_of(
    function: Callable[..., Any],
    known: Mapping[str, object],
    expressions: Mapping[str, str],
    definitions: Definitions,
) -> tuple[list[str], str | None]:
    """What ``function`` does, as statements of a script, and what it returns, if anything.

    ``known``: values of arguments, all plain ones; ``expressions``: what the other arguments are
    called in the script. Raises NotPlainError for what a script cannot have.
    """
    names = names_of(function)
    tree = tree_of(function)
    body = [tree.body] if isinstance(tree, ast.Lambda) else tree.body
    folded = _Folded(known, names).block(body)
    returned: str | None = None
    lines: list[str] = []
    renamed = _Renamed(expressions)
    for node in folded:
        plain = definitions.plain(renamed.visit(node), _outside(names, expressions))
        if isinstance(plain, ast.Return):
            returned = None if plain.value is None else ast.unparse(plain.value)
            break
        lines += ast.unparse(plain).splitlines()
    return lines, returned


def _outside(names: Mapping[str, object], expressions: Mapping[str, str]) -> Mapping[str, object]:
    """What names mean but for those of the script's own variables."""
    used = {name for text in expressions.values() for name in bound_or_used(text)}
    return {name: value for name, value in names.items() if name not in used}


def bound_or_used(text: str) -> set[str]:
    """The names in an expression."""
    tree = ast.parse(text, mode="eval")
    return bound_in(tree) | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


class _Renamed(ast.NodeTransformer):
    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._expressions = expressions

    def visit_Name(self, node: ast.Name) -> ast.AST:
        text = self._expressions.get(node.id)
        return node if text is None else ast.parse(text, mode="eval").body


class _Folded(ast.NodeTransformer):
    """Takes the branches that known arguments decide, and looks up in tables what they choose."""

    def __init__(self, known: Mapping[str, object], names: Mapping[str, object]) -> None:
        self._known = known
        self._names = names

    def block(self, body: list[Any]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for node in body:
            if isinstance(node, ast.expr):
                found.append(ast.Expr(self.visit(_copied(node))))
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            if isinstance(node, ast.If):
                value = self._value(node.test)
                if value is not _UNKNOWN:
                    found += self.block(node.body if value else node.orelse)
                    if found and isinstance(found[-1], ast.Return | ast.Raise):
                        break
                    continue
            found.append(self.visit(_copied(node)))
            if isinstance(node, ast.Return | ast.Raise):
                break
        return [ast.fix_missing_locations(node) for node in found]

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        value = self._value(node.test)
        if value is _UNKNOWN:
            return self.generic_visit(node)
        visited: ast.AST = self.visit(node.body if value else node.orelse)
        return visited

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._known and isinstance(node.ctx, ast.Load):
            return ast.parse(repr(self._known[node.id]), mode="eval").body
        return node

    def _value(self, test: ast.expr) -> object:
        """What a test comes to, if it looks at known arguments and constants alone."""
        used = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        plain = {
            name: value
            for name, value in self._names.items()
            if isinstance(value, str | int | tuple | frozenset | dict)
        }
        calls = any(isinstance(node, ast.Call) for node in ast.walk(test))
        if calls or not used & set(self._known) or not used <= {*self._known, *plain}:
            return _UNKNOWN
        code = compile(ast.Expression(_copied(test)), "<test>", "eval")
        return bool(eval(code, {"__builtins__": {}}, {**plain, **self._known}))


_UNKNOWN = object()


def _copied(node: Any) -> Any:
    copy = ast.parse(ast.unparse(node)).body[0]
    return copy.value if isinstance(node, ast.expr) and isinstance(copy, ast.Expr) else copy
