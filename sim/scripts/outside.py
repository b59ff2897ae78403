"""Programs that a script starts: Python must not be one of them, as it would run outside the simulation.

``git rev-parse`` and the like may run. A rank that is started so would meet the others on real
sockets, in real time, and the run would be "ok" without it. Imports no torch.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

_PYTHON = re.compile(r"python[\d.]*|torchrun|pytest|ipython")
#: where a frame lies that may start what it likes: compilers of PyTorch's, for instance
_LIBRARIES = (os.sep + "site-packages" + os.sep,)
_EXEC = ("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe")
#: by function of ``os``: which argument says what is started
_SPAWN = {
    **dict.fromkeys(("posix_spawn", "posix_spawnp", "system", "popen"), 0),
    **dict.fromkeys(
        [f"spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")], 1
    ),
}


def starts_python(command: Any) -> bool:
    """Whether a command, as ``subprocess`` takes it, starts Python."""
    if isinstance(command, str | bytes | os.PathLike):
        text = os.fsdecode(command)
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
    elif isinstance(command, Sequence):
        words = [os.fsdecode(word) for word in command[:1]]
    else:
        return False
    names = [os.path.basename(word) for word in words]
    return sys.executable in words or any(map(_PYTHON.fullmatch, names))


def check(command: Any, called: str) -> None:
    """Raises RuntimeError if ``called``, a function of the script's, would start Python."""
    if starts_python(command) and not _by_library():
        raise RuntimeError(
            f"{called} would start Python outside of the simulation: give each rank a command line of "
            "its own (squall run a.py : b.py), or use multiprocessing or torch.multiprocessing"
        )


def _by_library() -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in (__file__, subprocess.__file__):
        frame = frame.f_back
    return frame is not None and any(part in frame.f_code.co_filename for part in _LIBRARIES)


def guarded(function: Callable[..., Any], called: str, place: int = 0) -> Callable[..., Any]:
    """``function``, which is not called to start Python; argument ``place`` says what it starts."""

    @functools.wraps(function)
    def started(*args: Any, **kwargs: Any) -> Any:
        command = args[place] if len(args) > place else kwargs.get("args", kwargs.get("cmd"))
        check(command, called)
        return function(*args, **kwargs)

    return started


def functions_of_os() -> dict[str, Any]:
    """By name: what takes the place of functions of ``os``."""
    found: dict[str, Any] = {name: _no_exec(name) for name in _EXEC}
    for name, place in _SPAWN.items():
        if hasattr(os, name):
            found[name] = guarded(getattr(os, name), f"os.{name}", place)
    return found


def functions_of_subprocess() -> dict[str, Any]:
    """The same of ``subprocess``."""

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, args: Any, *rest: Any, **options: Any) -> None:
            check(args, "subprocess.Popen")
            super().__init__(args, *rest, **options)

    names = ("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput")
    found: dict[str, Any] = {
        name: guarded(getattr(subprocess, name), f"subprocess.{name}") for name in names
    }
    return {**found, "Popen": Popen}


def _no_exec(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        raise RuntimeError(
            f"os.{name} would replace the simulated process by a real one: start the script with the "
            "arguments, or the environment, that it would give itself"
        )

    return refuse
