"""Inside a process of a script: what others can see of it is done in its turn.

A process may go on before its turn (sim/stock/ahead.py), at the same time as others. Whoever looks at a folder, or
changes one, waits for the turn of the process; one that has opened a file, a socket, or memory that it shares, may
read or write there at any time, and does nothing before its turn any more. Modules are read by everybody, and change for
nobody.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from squall.real.native.here import Here
from squall.sim.world.places import is_library

#: events of Python's auditing (the table in its documentation) that are over when the function has returned,
#: and those after which something stays open
_AT_ONCE = frozenset(
    f"os.{name}"
    for name in (
        *("chmod", "chown", "link", "listdir", "mkdir", "remove", "removexattr", "rename", "rmdir"),
        *("scandir", "setxattr", "symlink", "truncate", "utime"),
    )
)
_STAYS = frozenset(
    [
        *("fcntl.flock", "fcntl.lockf", "mmap.__new__", "os.fork", "os.lockf", "os.posix_spawn"),
        *("os.system", "socket.bind", "socket.connect", "socket.sendto", "sqlite3.connect"),
        "subprocess.Popen",
    ]
)
#: functions that are not audited
_LOOKS = ("stat", "lstat", "access", "mkfifo", "statvfs")
_STORAGE = ("_share_fd_cpu_", "_share_filename_cpu_")
_SHARED_STORAGE = ("_new_shared_fd_cpu", "_new_shared_filename_cpu", "from_file")
#: files that change for nobody, by the end and the beginning of their names
_SOURCES = (".py", ".pyc", ".so", ".pth")
_unseen: list[bool] = []
_OF_THE_KERNEL = ("/proc/", "/sys/")


def install(here: Here) -> None:
    """From now on."""
    take_turn: Callable[[bool], object] = here.link.take_turn

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if _unseen:
            return
        if event == "open":
            if not _changes_for_nobody(args[0]):
                take_turn(True)
        elif event in _AT_ONCE:
            take_turn(False)
        elif event in _STAYS:
            take_turn(True)

    def after(function: Any, always: bool) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            take_turn(always)
            return function(*args, **kwargs)

        return called

    for name in _LOOKS:
        real = getattr(os, name)
        vars(os)[name] = after(real, False)
        for supported in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
            if real in supported:
                supported.add(vars(os)[name])
    storage: Any = torch.UntypedStorage
    for name in _STORAGE:
        setattr(storage, name, after(getattr(storage, name), True))
    for name in _SHARED_STORAGE:
        setattr(storage, name, staticmethod(after(getattr(storage, name), True)))
    vars(torch)["from_file"] = after(torch.from_file, True)
    native: Any = torch._C
    real_writer = native.PyTorchFileWriter
    to_file = after(real_writer, True)
    native.PyTorchFileWriter = lambda to, *args: (to_file if isinstance(to, str) else real_writer)(
        to, *args
    )
    sys.addaudithook(audit)


@contextmanager
def unseen() -> Iterator[None]:
    """What this process does while it is entered, others cannot see."""
    _unseen.append(True)
    try:
        yield
    finally:
        _unseen.pop()


def _changes_for_nobody(path: object) -> bool:
    if not isinstance(path, str):
        return False
    return path.endswith(_SOURCES) or path.startswith(_OF_THE_KERNEL) or is_library(path)
