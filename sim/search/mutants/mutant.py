"""Planted bugs: a mutant is one place of ``real/``, changed at run time and put back.

A mutant is data: the function, a piece of its source that must be there exactly once, and what
stands there instead. The function is compiled anew from its changed source and takes over the
new code, so whoever has got hold of the function runs it too. ``real/`` knows nothing of this.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from squall.sim.names import Device

#: what a campaign must do, besides running programs, before a mutant can show: one letter each
SCHEDULES = {
    "P": "a plain run",
    "R": "messages overtake each other",
    "L": "a message is lost",
    "E": "sending a message fails at once",
    "X": "a message is delivered twice, or a retry comes late",
    "T": "tasks of one worker interleave",
    "K": "a worker is killed",
    "O": "a timeout fires while the work goes on",
    "G": "a reference is dropped at a chosen moment",
    "Q": "shutdown at a chosen moment",
}
#: those that only injected faults can bring about
FAULTS = frozenset("LEXKQ")
#: the origin of those of drawn.py
DRAWN = "drawn"


#: of the functions that were changed, the code that they had before
_WRITTEN: dict[types.FunctionType, types.CodeType] = {}


def _as_written(function: types.FunctionType) -> types.CodeType:
    return _WRITTEN.get(function, function.__code__)


class MutantError(RuntimeError):
    """A mutant does not fit ``real/`` any more: what it is to change is not there, or twice."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One planted bug.

    ``place`` is ``module:Class.function`` below ``real``; in its source, without indentation of
    its own, ``old`` occurs once and is replaced by ``new``. ``wrong`` says in words what is wrong
    then; ``origin`` where the bug is from: an issue (i…) or pull request (p…) of PyTorch, or
    "own", or "drawn" (drawn.py). ``needs`` are the letters of the schedules that bring it out, each of which may do.
    ``device``: where tensors have to be for it to show; those of the CPU never come there.
    ``unseen``: why no program and no check can tell it yet; empty if it is expected to die.
    """

    name: str
    place: str
    old: str
    new: str
    wrong: str
    origin: str = "own"
    needs: str = "P"
    unseen: str = ""
    device: Device = "cpu"

    @property
    def needs_faults(self) -> bool:
        """Whether it stays hidden as long as nothing is lost, doubled, late or killed."""
        return set(self.needs) <= FAULTS

    @property
    def expected(self) -> bool:
        """Whether a campaign should kill it, with faults if it needs some."""
        return not self.unseen

    @contextlib.contextmanager
    def apply(self, code: types.CodeType | None = None) -> Iterator[None]:
        """Plant the bug in this process; leaving takes it out. Raises :class:`MutantError`.

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
        """The function as it is in its source, while the bug is planted; leaving plants it again."""
        function = find_function(self.place)
        planted = function.__code__
        function.__code__ = _as_written(function)
        try:
            yield
        finally:
            function.__code__ = planted

    def code(self) -> types.CodeType:
        """The code of the function with the bug in it. Raises :class:`MutantError`."""
        function = find_function(self.place)
        source = textwrap.dedent(inspect.getsource(function))
        count = source.count(self.old)
        if count != 1:
            raise MutantError(
                f"mutant {self.name}: {self.place} has the text to replace {count} times, "
                "it must be there exactly once; has the source changed?"
            )
        changed = source.replace(self.old, self.new)
        return recompile(function, changed, self.name)


def find_function(place: str) -> types.FunctionType:
    """The function at ``module:Class.name``, without what decorators put around it.

    Raises :class:`MutantError` if there is none.
    """
    module, _, path = place.partition(":")
    found: Any = importlib.import_module(f"squall.real.{module}")
    for name in path.split("."):
        try:
            found = inspect.getattr_static(found, name)
        except AttributeError:
            raise MutantError(f"real.{place} does not exist") from None
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    found = inspect.unwrap(found)
    if not isinstance(found, types.FunctionType):
        raise MutantError(f"real.{place} is no function")
    return found


def recompile(function: types.FunctionType, source: str, name: str) -> types.CodeType:
    """The code that ``source`` gives for ``function``. Raises :class:`MutantError`."""
    free = function.__code__.co_freevars
    # The names of the functions around it are arguments here; its own is the module's.
    text = f"""\
from __future__ import annotations
def around({", ".join(free)}):
    global {function.__name__}
{textwrap.indent(source, "    ")}
"""
    try:
        outer = compile(text, f"<mutant {name}>", "exec")
    except SyntaxError as error:
        raise MutantError(f"mutant {name} is no Python: {error}") from None
    found = [
        code
        for around in outer.co_consts
        if isinstance(around, types.CodeType)
        for code in around.co_consts
        if isinstance(code, types.CodeType) and code.co_name == function.__name__
    ]
    if len(found) != 1:
        raise MutantError(f"mutant {name}: its source is not the one function {function.__name__}")
    if found[0].co_freevars != free:
        raise MutantError(f"mutant {name} uses other variables of the functions around it")
    return found[0]
