"""What each word means that a field of a program can have, from where it is declared.

    options_of("Keep").words["use"]      # "until its last use"

The types are the ``Literal`` ones of model/program/program.py and of what it is made of: what a word means stands behind it
there, and what all of them decide before the first.
"""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from functools import cache
from typing import NamedTuple

from squall.model.program import cargo, chain, program, updates


class Options(NamedTuple):
    """``about``: what the type decides. ``words``: each word, and what it means."""

    name: str
    about: str
    words: dict[str, str]


def options_of(name: str) -> Options:
    """The words of a type of model/program/program.py. Raises KeyError if there is none."""
    return all_options()[name]


@cache
def all_options() -> dict[str, Options]:
    """Every type of words that are explained, by name, in the order in which they are declared."""
    found: dict[str, Options] = {}
    for module in (program, cargo, chain, updates):
        found.update(_options_in(inspect.getsource(module)))
    return found


def _options_in(text: str) -> dict[str, Options]:
    comments = {
        token.start[0]: (token.string, token.line.lstrip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    found = {}
    for node in ast.parse(text).body:
        words = _words(node)
        if not words:
            continue
        assert isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        meanings = {
            word: comments[line][0].removeprefix("#").strip()
            for word, line in words.items()
            if line in comments and not comments[line][1]
        }
        if not meanings:
            continue
        name = node.targets[0].id
        found[name] = Options(name, _before(node.lineno, comments), meanings)
        missing = words.keys() - meanings.keys()
        if missing:
            raise ValueError(f"{name}: nothing says what {', '.join(sorted(missing))} means")
    return found


def _words(node: ast.stmt) -> dict[str, int]:
    """The words of ``Name = Literal[...]``, each with its line."""
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)):
        return {}
    if not (isinstance(node.value.value, ast.Name) and node.value.value.id == "Literal"):
        return {}
    inside = node.value.slice
    parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    return {
        each.value: each.lineno
        for each in parts
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def _before(line: int, comments: dict[int, tuple[str, bool]]) -> str:
    """The comment that ends above a line."""
    said: list[str] = []
    while (above := comments.get(line - 1 - len(said))) is not None and above[1]:
        said.insert(0, above[0].removeprefix("#:").strip())
    return " ".join(said)
