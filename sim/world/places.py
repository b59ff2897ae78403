"""Where a task is, in the code of whoever wrote it: their line, and the function of PyTorch that it
called, instead of the frames below that."""

from __future__ import annotations

import linecache
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable
from importlib.util import find_spec
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from squall.real.own_files import OWN_FILES

#: what a frame that is squall's own stands for, in words; None if for nothing that a user wrote.
#: The second frame is the one that it called.
Teller = Callable[[FrameType, FrameType | None], str | None]

_TELLERS: list[Teller] = []
#: the folder that torch lies in, which need not be imported for that
_TORCH = find_spec("torch")
_FOLDER_OF_TORCH = [str(Path(_TORCH.origin).parents[1])] if _TORCH and _TORCH.origin else []
_LIBRARIES = tuple(
    dict.fromkeys(
        [
            sysconfig.get_path("stdlib"),
            sysconfig.get_path("scripts"),  # as the command squall
            sysconfig.get_path("purelib"),
            *site.getsitepackages(),
            *_FOLDER_OF_TORCH,
        ]
    )
)
#: in the name of a file that an installer has put somewhere
_INSTALLED = f"{os.sep}site-packages{os.sep}"
#: what the names of squall's modules begin with, and PyTorch's or Python's in their place
_PUBLIC = [
    ("squall.real.rpc.", "torch.distributed.rpc."),
    ("squall.real.autograd.", "torch.distributed.autograd."),
    ("squall.real.future", "torch.futures."),
    ("torch.distributed.rpc", "torch.distributed.rpc."),
    ("torch.distributed.autograd", "torch.distributed.autograd."),
    ("torch.futures", "torch.futures."),
]


def tell_as(module: str, public: str) -> None:
    """Functions of ``module`` stand for those of ``public``. For the module itself to call."""
    _PUBLIC.append((module, f"{public}."))


#: what :func:`line_of` has found: code of libraries, and the places of stacks; by ids of code, which is
#: kept so that nothing else has them
_OF_LIBRARIES: dict[int, CodeType] = {}
_FOUND: dict[tuple[int, ...], tuple[str, list[CodeType]]] = {}
#: of code: whether it is a library's
_LIBRARY: dict[CodeType, bool] = {}
#: frames that are nobody's function: wrappers that decorators leave
WRAPPERS = ("wrapper", "<lambda>", "wrapped", "inner")
#: what squall has before PyTorch's and Python's names of classes
_OWN = re.compile(r"(?:_?Py|User|Owner)(?=RRef\.)|\bThread(?=Lock\.)")
#: functions in which a thread can wait, by the last part of their names
_WAIT = frozenset(
    [
        "acquire",
        "backward",
        "barrier",
        "get",
        "init_rpc",
        "join",
        "put",
        "recv",
        "result",
        "rpc_sync",
        "shutdown",
        "step",
        "to_here",
        "wait",
        "wait_all",
    ]
)
_CALLED = re.compile(r"([\w.]+)\(")


def tells(teller: Teller) -> Teller:
    """Registers what knows some of squall's own frames."""
    _TELLERS.append(teller)
    return teller


def is_library(file: str) -> bool:
    """Whether code of that file is squall's own, the script that it writes for a function among it, or somebody else's
    who was installed."""
    if file.startswith((*OWN_FILES, *_LIBRARIES, "<")) or _INSTALLED in file:
        return True
    return ":" in os.path.basename(file) and not file.endswith(".py")


def cell_of(path: str) -> str:
    """``In[3]``, if the file is one that stands for a cell of this notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    named = None if shell is None else shell.compile.format_code_name(path)
    return "" if named is None else str(named[1])


def file_name(path: str) -> str:
    """The last part of a path, or the cell that it stands for."""
    return cell_of(path) or os.path.basename(path)


class CodePlace(NamedTuple):
    """A line of the user's, and the function that it is in."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{file_name(self.file)}:{self.line}" if self.file else ""


NOWHERE = CodePlace("", 0)


def user_place(frame: FrameType | None) -> CodePlace:
    """The user's line that a stack goes through last."""
    found = user_frame(frame)
    if found is None:
        return NOWHERE
    return CodePlace(found.f_code.co_filename, found.f_lineno, found.f_code.co_name)


def user_places(frame: FrameType | None) -> tuple[CodePlace, ...]:
    """The user's lines that a stack goes through, the last one first."""
    found = []
    while (frame := user_frame(frame)) is not None:
        found.append(CodePlace(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(found)


def place_in(frame: FrameType) -> str:
    """Where a frame is: ``file:line``."""
    return f"{file_name(frame.f_code.co_filename)}:{frame.f_lineno}"


def called_from(frame: FrameType | None, file: str) -> tuple[str, CodePlace]:
    """The function of one of squall's own files that a line of the user's calls, and that line; nothing where a library
    calls it."""
    function = ""
    while frame is not None and frame.f_code.co_filename == file:
        function, frame = frame.f_code.co_name, frame.f_back
    if frame is None or user_frame(frame) is not frame:
        return "", NOWHERE
    return function, CodePlace(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's in a stack; None if there is none."""
    while frame is not None:
        code = frame.f_code
        known = _LIBRARY.get(code)
        if known is None:
            known = _LIBRARY[code] = is_library(code.co_filename)
        if not known:
            return frame
        frame = frame.f_back
    return None


def user_line(frame: FrameType | None) -> str:
    """The innermost line of the user's in a stack, as ``train.py:12``; "" if there is none."""
    return str(user_place(frame))


def line_of(frame: FrameType | None) -> str:
    """As :func:`place_of`, where no frame of squall's own stands for anything: what was found for these frames
    before is found again."""
    key, codes, at = [], [], frame
    while at is not None:
        code = at.f_code
        key += [id(code), at.f_lineno]
        codes.append(code)
        if id(code) not in _OF_LIBRARIES:
            if not is_library(code.co_filename):
                break
            _OF_LIBRARIES[id(code)] = code
        at = at.f_back
    known = tuple(key)
    if known not in _FOUND:
        _FOUND[known] = place_of(frame), codes
    return _FOUND[known][0]


def place_of(frame: FrameType | None) -> str:
    """The user's line that a stack of frames (the innermost first) goes through last, and which
    function of PyTorch it called; "" if there is none."""
    inner: list[FrameType] = []
    while frame is not None:
        for teller in _TELLERS:
            told = teller(frame, inner[-1] if inner else None)
            if told is not None:
                return told
        file = frame.f_code.co_filename
        if not is_library(file):
            line = linecache.getline(file, frame.f_lineno).strip()
            called = called_function(inner) or _in_line(line)
            text = f"{file_name(file)}:{frame.f_lineno}"
            return text + (f": {line}" if line else "") + (f" (in {called})" if called else "")
        inner.append(frame)
        frame = frame.f_back
    return ""


def frames_of(frame: FrameType | None) -> list[FrameType]:
    """A stack, the innermost first."""
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def variables_of(frame: FrameType) -> dict[str, Any]:
    """What the variables of a frame are. Before Python 3.13 ``f_locals`` of a function has them as long as its frame is
    there, also those that it has dropped by then: it is emptied, unless somebody else has it."""
    local = frame.f_locals
    found = dict(local)
    ours = 3  # the frame's, that of this function, and that of sys.getrefcount
    if (
        frame.f_code.co_flags & CO_OPTIMIZED
        and type(local) is dict
        and sys.getrefcount(local) == ours
    ):
        local.clear()
    return found


def function_of(frame: FrameType | None) -> str:
    """Which function of PyTorch or Python squall's own code has called there; "" if none."""
    inner: list[FrameType] = []
    while frame is not None and not frame.f_code.co_filename.startswith(OWN_FILES):
        inner.append(frame)
        frame = frame.f_back
    return called_function(inner) if frame is not None else ""


def called_function(inner: list[FrameType]) -> str:
    """What PyTorch or Python call the function whose frame is the outermost of these."""
    for frame in reversed(inner):
        code, module = frame.f_code, str(frame.f_globals.get("__name__", ""))
        if code.co_name in WRAPPERS or ".__getattr__." in code.co_qualname:
            continue
        name = _OWN.sub("", code.co_qualname.replace(".<locals>", ""))
        for own, public in _PUBLIC:
            if module.startswith(own):
                return f"{public}{name}"
        return "" if module.startswith("squall.") else f"{module}.{name}"
    return ""


def _in_line(line: str) -> str:
    """The function that a line calls and waits in: one without a frame, as it is not in Python."""
    found = _CALLED.findall(line)
    waiting = [name for name in found if name.rpartition(".")[2] in _WAIT]
    return next(iter([*waiting, *found]), "")
