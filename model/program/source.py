"""The source of functions as text for a script of its own, without the module that they are in.

``squall export`` writes operations, hooks and stories as ordinary PyTorch code. What they compute
is written once, as the Python that runs; here it is read again. A :class:`Definitions` collects
what such code needs besides itself: imports, constants, functions and classes, each of which is
defined before it is used.

Annotations, ``typing.cast`` and comments are left out.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import linecache
import sys
import textwrap
import typing
from collections.abc import Mapping
from functools import lru_cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from squall.model.program.stories import Declare

#: what may stand in a script as it is printed
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_OURS = "squall."
#: what is under test, and the world around it: no script can have a copy of that
_OWN_WORLD = ("real", "world")


class NotPlainError(ValueError):
    """Something has no text that would mean the same in a script. The message says what."""


class Definitions:
    """What a script defines before its own code.

    ``stock``: by an object of squall's, what stands for it on stock PyTorch, as (text, import
    line or ""). What is neither there, nor plain, nor defined in Python makes
    :class:`NotPlainError`.
    """

    def __init__(
        self,
        stock: Mapping[int, tuple[str, str]] | None = None,
        taken: frozenset[str] = frozenset(),
    ) -> None:
        self._stock = {} if stock is None else stock
        #: import lines
        self.imports: dict[str, None] = {}
        #: definitions, by the names that they have in the script
        self.texts: dict[str, str] = {}
        #: by what else it is for: the name of a definition
        self.made: dict[object, str] = {}
        self._names: dict[int, str] = {}
        self._kept: list[object] = []
        self._taken = set(taken) | set(keyword.kwlist) | set(dir(builtins))

    def free_name(self, wanted: str) -> str:
        """``wanted``, or the same with a number, if something else is called so; taken now."""
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name

    def attempt(self, value: object) -> str:
        """As :meth:`text_of`, but if that fails nothing of it stays."""
        before = (dict(self.imports), dict(self.texts), dict(self._names), set(self._taken))
        try:
            return self.text_of(value)
        except NotPlainError:
            self.imports, self.texts, self._names, self._taken = before
            raise

    def use(self, line: str) -> None:
        """The script needs this import."""
        self.imports[line] = None

    def text_of(self, value: object, hint: str = "value") -> str:
        """What stands for ``value`` in the script; it is defined there if it has to be.

        Raises NotPlainError.
        """
        known = self._names.get(id(value))
        if known is not None:
            return known
        if id(value) in self._stock:
            text, line = self._stock[id(value)]
            if line:
                self.use(line)
            return text
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, torch.dtype | torch.layout | torch.device):
            self.use("import torch")
            return repr(value)
        if isinstance(value, ModuleType):
            return self._module(value, hint)
        if isinstance(value, tuple | list | dict | set | frozenset):
            return self._constant(value, hint)
        if isinstance(value, partial):
            self.use("from functools import partial")
            given = [self.text_of(each, hint) for each in (value.func, *value.args)]
            given += [f"{name}={self.text_of(each, name)}" for name, each in value.keywords.items()]
            return f"partial({', '.join(given)})"
        module = getattr(value, "__module__", None)
        if isinstance(value, FunctionType | type) and str(module).startswith(_OURS):
            if str(module).startswith(_OURS) and set(_OWN_WORLD) & set(str(module).split(".")[1:3]):
                raise NotPlainError(f"{value.__name__} of {str(module).removeprefix(_OURS)}")
            return self._defined(value)
        return self._elsewhere(value, hint)

    def _remember(self, value: object, name: str) -> str:
        self._names[id(value)] = name
        self._kept.append(value)  # so that its id stays its own
        return name

    def _module(self, module: ModuleType, hint: str) -> str:
        name = module.__name__
        if name.startswith(_OURS):
            raise NotPlainError(f"the module {name.removeprefix(_OURS)}")
        parent, _, last = name.rpartition(".")
        if not parent:
            self.use(f"import {name}" if hint in (name, "value") else f"import {name} as {hint}")
        else:
            self.use(f"from {parent} import {last}" + ("" if hint == last else f" as {hint}"))
        return self._remember(module, last if hint == "value" else hint)

    def _constant(self, value: Any, hint: str) -> str:
        if isinstance(value, list) and not all(isinstance(each, _PLAIN) for each in value):
            text = "[]"  # it is there to be filled while something runs
        elif isinstance(value, dict):
            items = [f"{self.text_of(k)}: {self.text_of(v)}" for k, v in value.items()]
            text = f"{{{', '.join(items)}}}"
        else:
            items = [self.text_of(each) for each in value]
            if isinstance(value, tuple):
                text = f"({', '.join(items)}{',' if len(items) == 1 else ''})"
            elif isinstance(value, list):
                text = f"[{', '.join(items)}]"
            else:
                text = f"{type(value).__name__}([{', '.join(sorted(items))}])"
        if hint == "value" or not isinstance(value, dict | list):
            return text
        name = self.free_name(hint.lstrip("_"))
        self.texts[name] = f"{name} = {text}"
        return self._remember(value, name)

    def _elsewhere(self, value: Any, hint: str) -> str:
        """An object of the standard library or of torch: by its name there."""
        module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
        for owner in (module, "torch", "torch.nn.functional"):
            found = sys.modules.get(str(owner))
            if found is None or name is None or str(owner).startswith(_OURS):
                continue
            if getattr(found, name, None) is value:
                if owner == "builtins":
                    return str(name)
                if owner == "torch":
                    self.use("import torch")
                    return f"torch.{name}"
                self.use(f"from {owner} import {name}")
                return self._remember(value, str(name))
        raise NotPlainError(f"{hint} of type {type(value).__name__}")

    def _defined(self, value: Any) -> str:
        """A function or a class of squall's: its source, and all that it uses."""
        if value.__name__ == "<lambda>":
            return ast.unparse(self.plain(tree_of(value), names_of(value)))
        if "<locals>" in value.__qualname__:
            raise NotPlainError(f"{value.__qualname__}, which is made while something runs")
        name = self.free_name(value.__name__.lstrip("_"))
        self._remember(value, name)
        if isinstance(value, FunctionType):
            value = inspect.unwrap(value)  # whose source has the decorators
            self._remember(value, name)
        tree = self.plain(tree_of(value), names_of(value))
        tree.name = name
        self.texts[name] = ast.unparse(tree)
        return name

    def plain(self, tree: Any, names: Mapping[str, object]) -> Any:
        """A copy of the tree without annotations, with the script's names for what it uses.
        ``names``: what its global and free names mean."""
        copy = ast.parse(ast.unparse(tree)).body[0]
        whole: ast.AST = copy.value if isinstance(copy, ast.Expr) else copy
        plain = _Plain(self, names, bound_in(whole))
        return ast.fix_missing_locations(plain.visit(whole))


class _Plain(ast.NodeTransformer):
    """Leaves annotations and casts out, and gives what is used the names of the script."""

    def __init__(
        self, definitions: Definitions, names: Mapping[str, object], bound: set[str]
    ) -> None:
        self._definitions = definitions
        self._names = names
        self._bound = bound
        self._data = False

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._bound or node.id not in self._names:
            return node
        text = self._definitions.text_of(self._names[node.id], node.id)
        return ast.copy_location(ast.parse(text, mode="eval").body, node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """What a table of constants has under a constant is written in its place."""
        table = self._names.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if isinstance(table, dict) and isinstance(node.slice, ast.Constant):
            found = table.get(node.slice.value)
            if found is not None:
                text = self._definitions.text_of(found, str(node.slice.value))
                return ast.parse(text, mode="eval").body
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Name) and self._names.get(function.id) is typing.cast:
            visited: ast.AST = self.visit(node.args[1])
            return visited
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        node.decorator_list = [each for each in node.decorator_list if not self._registers(each)]
        for arg in (
            *node.args.posonlyargs,
            *node.args.args,
            *node.args.kwonlyargs,
            *filter(None, (node.args.vararg, node.args.kwarg)),
        ):
            arg.annotation = None
        return self.generic_visit(node)

    def _registers(self, decorator: ast.expr) -> bool:
        """Whether it only notes a story under its name, which a script has no use for."""
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        meant = self._names.get(called.id) if isinstance(called, ast.Name) else None
        return isinstance(meant, Declare)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        before, self._data = self._data, bool(node.decorator_list)
        node.bases = [base for base in node.bases if not self._only_typing(base)]
        visited = self.generic_visit(node)
        self._data = before
        return visited

    def _only_typing(self, base: ast.expr) -> bool:
        name = base.value if isinstance(base, ast.Subscript) else base
        meant = self._names.get(name.id) if isinstance(name, ast.Name) else None
        return getattr(meant, "__module__", None) == "typing"

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if self._data:  # the fields of a dataclass
            node.annotation = ast.Constant("object")
            return self.generic_visit(node)
        if node.value is None:
            return None
        assign = ast.Assign([node.target], node.value, lineno=node.lineno)
        return self.generic_visit(assign)


def bound_in(tree: ast.AST) -> set[str]:
    """The names that are assigned somewhere in the tree, arguments among them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node is not tree:
                found.add(node.name)
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            found.add(node.name)
    return found


def names_of(value: Any) -> Mapping[str, object]:
    """What the global names in a function or class mean, and the free names of a function."""
    if isinstance(value, type):
        return vars(sys.modules[value.__module__])
    free = inspect.getclosurevars(value).nonlocals
    return {**value.__globals__, **free} if free else value.__globals__


def tree_of(value: Any) -> Any:
    """The syntax tree of a function, a lambda or a class. Raises NotPlainError if it has none."""
    if isinstance(value, type):
        return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    code = getattr(value, "__code__", None)
    if not isinstance(code, CodeType):
        raise NotPlainError(f"{value!r}, which is not written in Python")
    found = [
        node
        for node in _functions_in(code.co_filename)
        if _first_line(node) == code.co_firstlineno and _is_code_of(node, code)
    ]
    if len(found) != 1:
        raise NotPlainError(f"{code.co_name} in line {code.co_firstlineno} of {code.co_filename}")
    return found[0]


@lru_cache(maxsize=64)
def _functions_in(file: str) -> tuple[Any, ...]:
    lines = "".join(linecache.getlines(file))
    nodes = ast.walk(ast.parse(lines))
    return tuple(node for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda))


def _first_line(node: ast.FunctionDef | ast.Lambda) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(each.lineno for each in decorators)])


def _is_code_of(node: ast.FunctionDef | ast.Lambda, code: CodeType) -> bool:
    """Whether code may be that of a node in its line: lambdas can stand side by side."""
    if isinstance(node, ast.FunctionDef):
        return node.name == code.co_name
    if code.co_name != "<lambda>":
        return False
    names = tuple(arg.arg for arg in node.args.args)
    if names != code.co_varnames[: len(names)]:
        return False
    columns = [at for _, _, at, _ in code.co_positions() if at is not None]
    ends = [end for _, _, _, end in code.co_positions() if end is not None]
    last_lines = [line for _, line, _, _ in code.co_positions() if line is not None]
    if node.lineno != node.end_lineno or max(last_lines, default=0) != node.lineno:
        return True
    begin, end = node.body.col_offset, node.body.end_col_offset
    return min(columns, default=0) <= begin and max(ends, default=0) == end
