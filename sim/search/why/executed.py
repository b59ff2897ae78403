"""Which lines of the user's a run executes, in which step and task."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, NamedTuple

import greenlet

from squall.sim.scripts.compat.stores import Store
from squall.sim.world.places import is_library

#: lines after which no more are noted
_MOST = 200_000


def missing_file(error: BaseException) -> str:
    """The file that was not found, if that is the error."""
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        return os.path.abspath(error.filename)
    return ""


class Executed(NamedTuple):
    """A line that was executed, in that step by that task."""

    step: int
    task: int
    code: CodeType
    line: int


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
        self.executed: list[Executed] = []
        self.globals: dict[CodeType, Mapping[str, Any]] = {}
        #: by task: the last error
        self.thrown: dict[int, Thrown] = {}
        #: variables and attributes that were stores of all processes
        self.stores: set[str] = set()
        #: by line: the types that local variables had when it was executed first
        self.types: dict[tuple[CodeType, int], dict[str, type]] = {}
        self._libraries: dict[str, bool] = {}

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
        if len(self.executed) > _MOST:
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
        if event == "line" and len(self.executed) <= _MOST:
            self.executed.append(Executed(*self._where(), frame.f_code, frame.f_lineno))
            self._look(frame)
        elif event == "exception":
            self._threw(frame, argument[1])
        return self._line

    def _look(self, frame: FrameType) -> None:
        """Once at each line: at the variables."""
        if (frame.f_code, frame.f_lineno) in self.types:
            return
        names, local = frame.f_code.co_names, frame.f_locals
        self.types[frame.f_code, frame.f_lineno] = {k: type(value) for k, value in local.items()}
        seen = {name: frame.f_globals[name] for name in names if name in frame.f_globals}
        for name, value in [*seen.items(), *local.items()]:
            inside = getattr(value, "__dict__", {})
            for key in (name, *(each for each in names if each in inside)):
                if isinstance(value if key == name else inside[key], Store):
                    self.stores.add(key)

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
