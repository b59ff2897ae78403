"""Patches of ``real/``: one place of a function, changed at run time and put back.

A patch is data: the function, a piece of its source that must be there exactly once, and what
stands there instead. The function is compiled anew from its changed source and takes over the
new code, so whoever has got hold of the function runs it too. ``real/`` knows nothing of this.
Planted bugs are patches (sim/search/mutants/mutant.py), and so is what PyTorch does otherwise than
the port (sim/diff/quirks.py).
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import textwrap
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

#: of the functions that were changed, the code that they had before
_WRITTEN: dict[types.FunctionType, types.CodeType] = {}


def _as_written(function: types.FunctionType) -> types.CodeType:
    return _WRITTEN.get(function, function.__code__)


class PatchError(RuntimeError):
    """A patch does not fit ``real/`` any more: what it is to change is not there, or twice."""


@dataclass(frozen=True, kw_only=True)
class Patch:
    """``place`` is ``module:Class.function`` below ``real``; in its source, without indentation of
    its own, ``old`` occurs once and is replaced by ``new``. Several for one function go together (:func:`together`)."""

    name: str
    place: str
    old: str
    new: str

    @contextlib.contextmanager
    def apply(self, code: types.CodeType | None = None) -> Iterator[None]:
        """Change the function in this process; leaving puts it back. Raises :class:`PatchError`.

        ``code``: what :meth:`code` gave, if it has been called before.
        """
        function = find_function(self.place)
        if code is None:
            code = self.code()
        before = function.__code__
        _WRITTEN.setdefault(function, before)
        function.__code__ = code
        try:
            yield
        finally:
            function.__code__ = before

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """The function as it is in its source, while it is changed; leaving changes it again."""
        function = find_function(self.place)
        planted = function.__code__
        function.__code__ = _as_written(function)
        try:
            yield
        finally:
            function.__code__ = planted

    def code(self) -> types.CodeType:
        """The code of the changed function. Raises :class:`PatchError`."""
        return _code((self,))

    def changed(self, source: str) -> str:
        """The source of a function with the patch in it."""
        count = source.count(self.old)
        if count != 1:
            raise PatchError(
                f"{self.name}: {self.place} has the text to replace {count} times, "
                "it must be there exactly once; has the source changed?"
            )
        return source.replace(self.old, self.new)


@contextlib.contextmanager
def together(patches: Iterable[Patch]) -> Iterator[None]:
    """All of them, one after the other where they are for one function. Raises :class:`PatchError`."""
    functions: dict[str, tuple[Patch, ...]] = {}
    for patch in patches:
        functions[patch.place] = (*functions.get(patch.place, ()), patch)
    with contextlib.ExitStack() as all:
        for each in functions.values():
            all.enter_context(each[0].apply(_code(each)))
        yield


@lru_cache(maxsize=1024)
def _code(patches: tuple[Patch, ...]) -> types.CodeType:
    """The code of a function with these patches."""
    function = find_function(patches[0].place)
    source = textwrap.dedent(inspect.getsource(function))
    for patch in patches:
        source = patch.changed(source)
    return recompile(function, source, patches[0].name)


def find_function(place: str) -> types.FunctionType:
    """The function at ``module:Class.name``, without what decorators put around it.

    Raises :class:`PatchError` if there is none.
    """
    module, _, path = place.partition(":")
    found: Any = importlib.import_module(f"squall.real.{module}")
    for name in path.split("."):
        try:
            found = inspect.getattr_static(found, name)
        except AttributeError:
            raise PatchError(f"real.{place} does not exist") from None
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    found = inspect.unwrap(found)
    if not isinstance(found, types.FunctionType):
        raise PatchError(f"real.{place} is no function")
    return found


def recompile(function: types.FunctionType, source: str, name: str) -> types.CodeType:
    """The code that ``source`` gives for ``function``. Raises :class:`PatchError`."""
    free = function.__code__.co_freevars
    # The names of the functions around it are arguments here; its own is the module's.
    text = f"""\
from __future__ import annotations
def around({", ".join(free)}):
    global {function.__name__}
{textwrap.indent(source, "    ")}
"""
    try:
        outer = compile(text, f"<patch {name}>", "exec")
    except SyntaxError as error:
        raise PatchError(f"{name} is no Python: {error}") from None
    found = [
        code
        for around in outer.co_consts
        if isinstance(around, types.CodeType)
        for code in around.co_consts
        if isinstance(code, types.CodeType) and code.co_name == function.__name__
    ]
    if len(found) != 1:
        raise PatchError(f"{name}: its source is not the one function {function.__name__}")
    if found[0].co_freevars != free:
        raise PatchError(f"{name} uses other variables of the functions around it")
    return found[0]
