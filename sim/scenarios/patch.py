"""Patches: one place of a function, changed at run time and put back.

A patch is data: the function, a piece of its source that must be there exactly once, and what
stands there instead. The function is compiled anew from its changed source and takes over the
new code, so whoever has got hold of the function runs it too. ``real/`` knows nothing of this.
A function of PyTorch's, or of what carries process groups, is changed in the processes of ranks as well
(sim/stock/changes.py), which are copied while it is.
Planted bugs are patches (sim/search/mutants/mutant.py), and so is what PyTorch does otherwise than
the port (sim/diff/quirks.py).
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import textwrap
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from squall.sim.stock.changes import CALLED

#: how full names of modules begin, which others are not
_OUTSIDE = ("torch.", "squall.")
#: of the functions that were changed, the code that they had before
_WRITTEN: dict[types.FunctionType, types.CodeType] = {}


def _as_written(function: types.FunctionType) -> types.CodeType:
    return _WRITTEN.get(function, function.__code__)


class PatchError(RuntimeError):
    """A patch does not fit any more: what it is to change is not there, or twice."""


@dataclass(frozen=True, kw_only=True)
class Patch:
    """``place`` is ``module:Class.function``, the module below ``real`` unless it begins with ``torch.`` or ``squall.``;
    in its source, without indentation of its own, ``old`` occurs once and is replaced by ``new``. Several for one
    function go together (:func:`together`)."""

    name: str
    place: str
    old: str
    new: str

    @contextlib.contextmanager
    def apply(self, code: types.CodeType | None = None) -> Iterator[None]:
        """Change the function in this process; leaving puts it back. Raises :class:`PatchError`.

        ``code``: what :meth:`code` gave, if it has been called before.
        """
        with _applied((self,), self.code() if code is None else code):
            yield

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """The function as it is in its source, while it is changed; leaving changes it again."""
        function, called = find_function(self.place), [*CALLED]
        planted = function.__code__
        function.__code__ = _as_written(function)
        CALLED[:] = [each for each in called if each not in _calls((self,))]
        try:
            yield
        finally:
            function.__code__ = planted
            CALLED[:] = called

    @property
    def where(self) -> str:
        """The place, for people."""
        return _full_name(self.place)

    def code(self) -> types.CodeType:
        """The code of the changed function. Raises :class:`PatchError`."""
        return _code((self,))

    def changed(self, source: str) -> str:
        """The source of a function with the patch in it."""
        count = source.count(self.old)
        if count != 1:
            raise PatchError(
                f"{self.name}: {self.where} has the text to replace {count} times, "
                "it must be there exactly once; has the source changed?"
            )
        return source.replace(self.old, self.new)


#: by name: what is changed
_FIELDS = tuple(each.name for each in fields(Patch))


@contextlib.contextmanager
def together(patches: Iterable[Patch]) -> Iterator[None]:
    """All of them, one after the other where they are for one function. Raises :class:`PatchError`."""
    functions: dict[str, tuple[Patch, ...]] = {}
    for patch in patches:
        functions[patch.place] = (*functions.get(patch.place, ()), patch)
    with contextlib.ExitStack() as all:
        for each in functions.values():
            all.enter_context(_applied(each, _code(each)))
        yield


@contextlib.contextmanager
def _applied(patches: tuple[Patch, ...], code: types.CodeType) -> Iterator[None]:
    """The function of the patches with their code, here and in processes that are copied meanwhile."""
    function, calls = find_function(patches[0].place), _calls(patches)
    before = function.__code__
    _WRITTEN.setdefault(function, before)
    function.__code__ = code
    CALLED.extend(calls)
    try:
        yield
    finally:
        function.__code__ = before
        for each in calls:
            CALLED.remove(each)


def _calls(patches: tuple[Patch, ...]) -> list[str]:
    """What is called for patches of a function where it runs in the processes of ranks."""
    if not patches[0].place.startswith(_OUTSIDE):
        return []
    # A mutant says more than what is changed.
    told = [{name: getattr(each, name) for name in _FIELDS} for each in patches]
    return [f"{__name__}:apply_for_good {json.dumps(told)}"]


def apply_for_good(told: str) -> None:
    """Change a function in this process, of which others are copied. Raises :class:`PatchError`."""
    patches = tuple(Patch(**each) for each in json.loads(told))
    find_function(patches[0].place).__code__ = _code(patches)


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
    outside = place.startswith(_OUTSIDE)
    found: Any = importlib.import_module(module if outside else f"squall.real.{module}")
    for name in path.split("."):
        try:
            found = inspect.getattr_static(found, name)
        except AttributeError:
            raise PatchError(f"{_full_name(place)} does not exist") from None
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    found = inspect.unwrap(found)
    if not isinstance(found, types.FunctionType):
        raise PatchError(f"{_full_name(place)} is no function")
    return found


def _full_name(place: str) -> str:
    return place if place.startswith(_OUTSIDE) else f"real.{place}"


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
