"""Which files are squall's own, to tell its frames and modules from a user's."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

#: the folder of the package ``squall``, as the interpreter names it: links are not followed
PACKAGE = Path(__file__).parents[1]
#: what the paths of its files begin with; no test is squall's own
OWN_FILES = (
    *(str(PACKAGE / name) + os.sep for name in ("real", "sim", "model")),
    str(PACKAGE / "__main__.py"),
)


def is_own(file: str) -> bool:
    """Whether it is squall's, or the script that it has written to call a function: ``.../test_file:test_name``."""
    name = os.path.basename(file)
    return file.startswith(OWN_FILES) or (":" in name and name[0] != "<" and name[-3:] != ".py")


def described(error: BaseException) -> traceback.TracebackException:
    """``error`` for printing, with those that caused it, all without frames of squall's own."""
    whole = traceback.TracebackException.from_exception(error)
    seen = set[int]()
    left: list[traceback.TracebackException | None] = [whole]
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            kept = [frame for frame in each.stack if not is_own(frame.filename)]
            each.stack = traceback.StackSummary.from_list(kept)
            left += [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or ())]
    return whole


@contextmanager
def own_frames_hidden(wanted: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Whatever formats a traceback or a stack in Python leaves squall's own frames out, whenever ``wanted`` says so."""
    module: Any = traceback
    names = ("_walk_tb_with_full_positions", "walk_stack")
    before = {name: vars(module)[name] for name in names}

    def hiding(walk: Callable[[Any], Iterator[tuple[FrameType, Any]]]) -> Any:
        def walked(of: Any) -> Iterator[tuple[FrameType, Any]]:
            if not wanted():
                return walk(of)
            return (each for each in walk(of) if not is_own(each[0].f_code.co_filename))

        return walked

    vars(module).update({name: hiding(walk) for name, walk in before.items()})
    try:
        yield
    finally:
        vars(module).update(before)


def without_own_frames(error: BaseException | None) -> None:
    """The same for what the interpreter itself will print of an error, and of those that caused it."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = kept_frames(each.__traceback__)
        left += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def kept_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without squall's own frames."""
    if trace is None:
        return None
    following = kept_frames(trace.tb_next)
    if is_own(trace.tb_frame.f_code.co_filename):
        return following
    return TracebackType(following, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
