"""Which lines of the user's a run executes, and which keys of stores it uses, in which step and task."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Literal, NamedTuple

import greenlet

from squall.sim.world.places import is_library
from squall.sim.world.watch import KeyUsed

#: lines after which no more are noted
_MOST = 200_000


def missing_file(error: BaseException) -> str:
    """The file that was not found, if that is the error."""
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        return os.path.abspath(error.filename)
    return ""


#: what of a key is used, and how
Part = Literal["presence", "value"]
Changes = Literal["read", "add", "write"]


class Executed(NamedTuple):
    """A line that was executed, in that step by that task."""

    step: int
    task: int
    code: CodeType
    line: int


class Stored(NamedTuple):
    """A key of a store was used, in that step by that task of that worker, who is known as ``by``: whether it is there
    ("presence"), or its value. Two that read do not depend on their order, as a rule two that add do not."""

    step: int
    task: int
    used: KeyUsed
    part: Part
    how: Changes
    worker: int
    by: str


class Thrown(NamedTuple):
    """An error, by its id, the line of the user's that it went through first, and the file that it had not found."""

    error: int
    code: CodeType
    line: int
    missing: str


class Lines:
    """Notes lines while :meth:`noted` is under way. ``where`` gives the present step and task."""

    def __init__(self, where: Callable[[], tuple[int, int]]) -> None:
        self._where = where
        #: in the order of both
        self.done: list[Executed | Stored] = []
        self.globals: dict[CodeType, Mapping[str, Any]] = {}
        #: by task: the last error
        self.thrown: dict[int, Thrown] = {}
        #: by line: the types that local variables had when it was executed first
        self.types: dict[tuple[CodeType, int], dict[str, type]] = {}
        self._libraries: dict[str, bool] = {}
        #: keys of stores that are there
        self._there: set[tuple[str, str]] = set()

    @property
    def executed(self) -> list[Executed]:
        return [each for each in self.done if isinstance(each, Executed)]

    def stored(self, used: KeyUsed, worker: int, by: str) -> None:
        """Told of each key of a store that is used."""
        key, how = (used.store, used.key), used.how
        was_there = key in self._there
        if how in ("add", "write"):
            self._there.add(key)
        elif how == "delete":
            self._there.discard(key)
        where = self._where()
        if how == "look" or was_there != (key in self._there):
            changed: Changes = "read" if how == "look" else "write"
            self.done.append(Stored(*where, used, "presence", changed, worker, by))
        if how != "look":
            self.done.append(
                Stored(*where, used, "value", "write" if how == "delete" else how, worker, by)
            )

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note every line of the user's that is executed in this block, in whatever greenlet."""
        before, switching = sys.gettrace(), greenlet.gettrace()
        greenlet.settrace(self._switched)
        sys.settrace(self._called)
        try:
            yield
        finally:
            greenlet.settrace(switching)
            sys.settrace(before)

    def _switched(self, event: str, between: Any) -> None:
        """Another greenlet goes on: what is traced is kept by thread, and by frame."""
        if len(self.done) > _MOST:
            sys.settrace(None)
            return
        frame = sys._getframe(0).f_back
        while frame is not None:
            if self._is_users(frame):
                frame.f_trace = self._line
            frame = frame.f_back
        sys.settrace(self._called)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if self._is_users(frame) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and len(self.done) <= _MOST:
            self.done.append(Executed(*self._where(), frame.f_code, frame.f_lineno))
            self._look(frame)
        elif event == "exception":
            self._threw(frame, argument[1])
        return self._line

    def _look(self, frame: FrameType) -> None:
        """Once at each line: at the variables."""
        if (frame.f_code, frame.f_lineno) not in self.types:
            local = frame.f_locals
            self.types[frame.f_code, frame.f_lineno] = {k: type(v) for k, v in local.items()}

    def _threw(self, frame: FrameType, error: BaseException) -> None:
        """An error goes through a frame. It is not kept: its frames would be, with all that they hold."""
        task = self._where()[1]
        if task not in self.thrown or self.thrown[task].error != id(error):
            missing = missing_file(error)
            self.thrown[task] = Thrown(id(error), frame.f_code, frame.f_lineno, missing)

    def _is_users(self, frame: FrameType) -> bool:
        code = frame.f_code
        known = self._libraries.get(code.co_filename)
        if known is None:
            known = self._libraries[code.co_filename] = is_library(code.co_filename)
        if known:
            return False
        self.globals.setdefault(code, frame.f_globals)
        return True
