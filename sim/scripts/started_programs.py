"""Programs that a script starts: Python must not be a real one of them, outside the simulation.

``git rev-parse`` and the like may run. A rank that is started so would meet the others on real
sockets, in real time, and the run would be "ok" without it. What ``subprocess`` starts is run in the
simulation instead (sim/scripts/subprocesses.py). Imports no torch.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from squall.sim.scripts.installed import SHARED
from squall.sim.scripts.python_command import CannotRun, read

#: where a frame lies that may start what it likes: compilers of PyTorch's, for instance
_LIBRARIES = tuple(f"{os.sep}site-packages{os.sep}{package}{os.sep}" for package in sorted(SHARED))
#: what of them starts what a script says: the agent of torchrun
_ASKED_BY_SCRIPTS = os.path.join("", "torch", "distributed", "elastic", "")
#: files whose frames are between the caller and what is started
_BETWEEN = (
    __file__,
    os.path.join(os.path.dirname(__file__), "subprocesses.py"),
    subprocess.__file__,
)
_EXEC = ("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe")
#: by function of ``os``: which argument says what is started
_SPAWN = {
    **dict.fromkeys(("posix_spawn", "posix_spawnp", "system", "popen"), 0),
    **dict.fromkeys(
        [f"spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")], 1
    ),
}


def check(command: Any, called: str) -> None:
    """Raises RuntimeError if ``called``, a function of the script's, would start Python."""
    if not by_library() and read(command, shell=isinstance(command, str), called=called):
        raise CannotRun(called, "this function of os is not simulated")


def by_library() -> bool:
    """Whether code of a package that all processes share asks for what is started."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    file = "" if frame is None else frame.f_code.co_filename
    return _ASKED_BY_SCRIPTS not in file and any(part in file for part in _LIBRARIES)


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


def _no_exec(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        raise RuntimeError(
            f"os.{name} would replace the simulated process by a real one: start the script with the "
            "arguments, or the environment, that it would give itself"
        )

    return refuse
