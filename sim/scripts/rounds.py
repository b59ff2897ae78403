"""Loops that poll: each round of a loop of a script that has no end of its own is counted.

``while not event.is_set(): pass`` waits, and nothing in it says so: what it asks costs no virtual time,
so nobody else would ever get a turn. Whatever a loop asks for, its rounds can be counted, and from some
number on without a wait they let time pass, as looks at the clock do. Loops that wait in between are
never counted that far. Code of modules that is counted is kept from one process to the next, as Python keeps
bytecode. Imports no torch.
"""

from __future__ import annotations

import ast
import linecache
import marshal
import warnings
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from os import getpid, replace  # which a script's process has others of
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from squall.real.native.build import directory

#: the builtin that is called at the head of each round
NAME = "__squall_round__"
#: rounds of one task, or thread, without a wait, that are free; and after how many more time passes again
ROUNDS, AGAIN = 1000, 100
#: as many rounds counts what others are asked, a store for instance: it is a message and its answer
ASKED = 50
#: what gives values for ever, and with how many arguments
_ENDLESS = {"count": (0, 1, 2), "cycle": (1,), "repeat": (1,), "iter": (2,)}
_WORDS = (b"while", *(f"{name}(".encode() for name in _ENDLESS))


def compiled(source: str | bytes, path: str) -> CodeType:
    """The module ``source``, of whose loops without an end of their own, ``while`` and for instance
    ``for _ in itertools.count()``, each round calls the builtin :data:`NAME`.

    Raises what ``compile`` raises.
    """
    tree: Any = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    if has_loops(source):
        count(tree)
    code: CodeType = compile(tree, path, "exec", dont_inherit=True)
    return code


@lru_cache(maxsize=16)
def marshalled(source: str, path: str) -> bytes | None:
    """The code of :func:`compiled`, for processes that all run it. None if compiling has something to say:
    that each process says for itself."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            code = compiled(source, path)
        except (SyntaxError, ValueError):
            return None
    return None if warned else marshal.dumps(code)


def code_of(loader: SourceFileLoader) -> CodeType | None:
    """The code of a module, counted if it has loops; as often as others have imported it, it is read from a file.

    Raises what ``compile`` and reading the source raise.
    """
    source = loader.get_data(loader.path)
    return (
        _kept(source, loader.path)
        if has_loops(source)
        else SourceFileLoader.get_code(loader, loader.name)
    )


def _kept(source: bytes, path: str) -> CodeType:
    """The code of :func:`compiled`, from a file if it is there and says that it is of this source. Code that
    Python warns of is not kept: each process is to be told."""
    named = blake2b(f"{MAGIC_NUMBER.hex()} {path}".encode(), digest_size=12).hexdigest()
    file = directory() / "counted" / named
    begins = blake2b(source, key=_rules(), digest_size=32).digest()
    try:
        data = file.read_bytes()
    except OSError:
        data = b""
    if data.startswith(begins):
        kept: CodeType = marshal.loads(data[len(begins) :])
        return kept
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        code = compiled(source, path)
    for each in warned:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if not warned:
        with suppress(OSError):  # read-only, or full: then it is compiled each time
            file.parent.mkdir(parents=True, exist_ok=True)
            written = file.with_name(f"{named}.{getpid()}")
            written.write_bytes(begins + marshal.dumps(code))
            replace(written, file)
    return code


@cache
def _rules() -> bytes:
    """Others for other rules of what is counted: those of this file."""
    return blake2b(Path(__file__).read_bytes(), digest_size=32).digest()


def has_loops(source: str | bytes) -> bool:
    """Whether a source may have loops that are counted."""
    text = source if isinstance(source, bytes) else source.encode()
    return any(word in text for word in _WORDS)


def count(tree: ast.Module) -> None:
    """Let each round of the loops of a module that have no end of their own call the builtin."""
    for node in ast.walk(tree):
        if isinstance(node, ast.While):
            node.body.insert(0, _call_at(node.test))
        elif isinstance(node, ast.For) and _is_endless(node.iter):
            node.body.insert(0, _call_at(node.iter))


def _is_endless(given: ast.expr) -> bool:
    """Whether an iterable is one that ends only by what its loop does, or asks."""
    if not isinstance(given, ast.Call):
        return False
    called = given.func.attr if isinstance(given.func, ast.Attribute) else None
    if isinstance(given.func, ast.Name):
        called = given.func.id
    return called in _ENDLESS and len(given.args) in _ENDLESS[called]


def _call_at(place: ast.expr) -> ast.Expr:
    call = ast.Call(ast.Name(NAME, ast.Load()), [], [])
    found = ast.Expr(call)
    for node in (call.func, call, found):
        ast.copy_location(node, place)
    return found


class Polling(NamedTuple):
    """A loop that goes on and on: where it is, and its rounds since there was last a wait."""

    path: str
    line: int
    rounds: int

    @property
    def place(self) -> str:
        """As a traceback has it."""
        return f'Traceback (most recent call last):\n  File "{self.path}", line {self.line}\n'

    def __str__(self) -> str:
        asked = linecache.getline(self.path, self.line).strip().rstrip(":")
        return f"{self.path}:{self.line} goes round again and again, {self.rounds:,} times: {asked}"
