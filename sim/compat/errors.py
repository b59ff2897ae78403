"""Errors that end a simulated process, in the words and with the frames of the user's script."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_OWN = tuple(str(_ROOT / name) + "/" for name in ("real", "sim", "model"))


@dataclass(frozen=True)
class ProcessError:
    """An uncaught exception: its type's name, its text, and a printable traceback."""

    type: str
    text: str
    traceback: str


def report(error: BaseException) -> ProcessError:
    """Describe ``error``; frames of the simulator itself are left out of the traceback."""
    described = traceback.TracebackException.from_exception(error)
    _strip(described, set())
    return ProcessError(type(error).__name__, str(error), "".join(described.format()))


def exit_code_of(error: BaseException) -> int | None:
    """The exit code that an exception stands for, if it is a SystemExit; prints its text."""
    if not isinstance(error, SystemExit):
        return None
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _strip(described: traceback.TracebackException, seen: set[int]) -> None:
    if id(described) in seen:
        return
    seen.add(id(described))
    kept = [frame for frame in described.stack if not frame.filename.startswith(_OWN)]
    described.stack = traceback.StackSummary.from_list(kept)
    for other in (described.__cause__, described.__context__):
        if other is not None:
            _strip(other, seen)
    for other in getattr(described, "exceptions", None) or ():
        _strip(other, seen)
