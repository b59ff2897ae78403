"""An exception that left the function of a rank, as people are told of it: where it was raised, and on which worker."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from squall.model.events.run import EXITED, ProcessError
from squall.real.own_files import OWN_FILES
from squall.sim.world.places import cell_of, is_library

_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NUMBERED = re.compile(r"rank (\d+)$")
_CHAINED = re.compile(
    r"\n\nThe above exception was the direct cause of the following exception:\n\n"
    r"|\n\nDuring handling of the above exception, another exception occurred:\n\n"
)
#: what RPC tells of an exception of a function on another worker
_REMOTE = re.compile(
    r"On WorkerInfo\(id=\d+, name=(?P<worker>[^)]*)\):\n(?P<type>\w+)\(.*?\n"
    r"Traceback \(most recent call last\):\n"
    r"(?P<frames>.*?\n)(?P<last>(?:[\w.]+\.)?(?P=type)(?:: [^\n]*)?)(?:\n|$)",
    re.DOTALL,
)
#: where that is the key of a KeyError, whose text is a literal
_KEY = re.compile(r"KeyError: (?P<text>(['\"])On WorkerInfo\([^\n]*\2)")


class RankError(NamedTuple):
    """An exception that left the function of a rank.

    ``file`` and ``line`` are the last place in code of the user's before it was raised; empty and 0
    if there is none.
    """

    rank: int | None
    worker: str
    type: str
    message: str
    traceback: str
    file: str
    line: int

    @property
    def where(self) -> str:
        """``file:line``, ``In[3]:line`` in a notebook, or nothing."""
        return _at(self.file, self.line) if self.file else ""

    def __str__(self) -> str:
        who = self.worker if self.rank is None else f"rank {self.rank}"
        where = f" at {self.where}" if self.file else ""
        if (remote := raised_remotely(self.message)) is not None:
            return f"{who}: {remote}" + (f", called from {self.where}" if self.file else "")
        if self.type == EXITED:
            return f"{who} ended with {self.message}{where}"
        first = self.message.strip().split("\n", 1)[0]
        return f"{who}: {self.type}: {first}{where}"


def _at(file: str, line: int) -> str:
    return f"{cell_of(file) or file}:{line}"


def raised_remotely(message: str) -> str | None:
    """What a function on another worker has raised, on which and where, if an error tells of that: the innermost,
    where one call has led to the next."""
    if (key := _KEY.match(message)) is not None:
        message = str(ast.literal_eval(key["text"]))
    begin = message.rfind("On WorkerInfo(")
    found = _REMOTE.match(message, begin) if begin >= 0 else None
    if found is None:
        return None
    file, line = _last_place(f"\n{found['frames']}")
    where = f" at {_at(file, line)}" if file else ""
    return f"{found['last']}, raised on {found['worker']}{where}"


def rank_error(error: ProcessError, script: str) -> RankError:
    """``error`` of a process of ``script``, which squall may have written."""
    text = _without_own(error.traceback, script)
    file, line = _last_place(text)
    rank = error.rank
    if rank is None and (number := _NUMBERED.match(error.worker)):
        rank = int(number[1])  # it has not joined a group, but each process of a function has one
    return RankError(rank, error.worker, error.type, error.message, text, file, line)


def _without_own(text: str, script: str) -> str:
    """The traceback without frames of squall's, of which the script of a function is one."""
    kept: list[str] = []
    skipping = False
    for line in text.splitlines(keepends=True):
        frame = _FRAME.match(line)
        if frame is not None:
            file = frame["file"]
            skipping = file.startswith(OWN_FILES) or (file == script and not file.endswith(".py"))
        elif not line.startswith("    "):
            skipping = False
        if not skipping:
            kept.append(line)
    return "".join(kept)


def _last_place(text: str) -> tuple[str, int]:
    place = "", 0
    for line in _CHAINED.split(text)[-1].splitlines()[1:]:
        if not line.startswith("  "):
            break  # what follows is the message, which may quote a traceback of another rank
        frame = _FRAME.match(line)
        if frame is not None and not is_library(frame["file"]):
            place = frame["file"], int(frame["line"])
    return place
