"""``os``, ``sys``, ``atexit``, ``signal`` and ``importlib`` as one simulated process sees them.

Imports no torch.
"""

from __future__ import annotations

import atexit as real_atexit
import importlib
import importlib.util as real_util
import os as real_os
import signal as real_signal
import subprocess
import sys as real_sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from squall.sim.scripts import file_locks
from squall.sim.scripts.compat.loaded_modules import LoadedModules
from squall.sim.scripts.compat.module_facades import Facade, WriteThroughFacade
from squall.sim.scripts.compat.random_state import urandom
from squall.sim.scripts.compat.signals import deliver
from squall.sim.scripts.compat.signatures import builtin
from squall.sim.scripts.started_programs import functions_of_os
from squall.sim.scripts.subprocesses import Start, functions, popen, system

if TYPE_CHECKING:
    from squall.sim.scripts.compat.modules import ModuleSpace
    from squall.sim.scripts.compat.process import SimProcess


def make_os(space: ModuleSpace) -> ModuleType:
    process: SimProcess = space.process
    environ = process.environ

    @builtin
    def getenv(key: str, default: Any = None) -> Any:
        return environ.get(key, default)

    @builtin
    def putenv(name: Any, value: Any, /) -> None:
        environ[real_os.fsdecode(name)] = real_os.fsdecode(value)

    @builtin
    def unsetenv(name: Any, /) -> None:
        environ.pop(real_os.fsdecode(name), None)

    @builtin
    def getppid() -> int:
        return process.parent.pid if process.parent is not None else process.group.pid

    @builtin
    def kill(pid: int, signum: int, /) -> None:
        target = process.group.by_pid(pid)
        if target is None or target.has_ended:
            raise ProcessLookupError(3, "No such process")
        if signum != 0:
            deliver(target, int(signum))

    @builtin
    def fork() -> int:
        raise OSError("os.fork is not available in a simulated process: use multiprocessing")

    @builtin
    def abort() -> None:
        process.exit_now(-int(real_signal.SIGABRT))

    @builtin
    def chdir(path: Any) -> None:
        process.group.keep_folders_apart()
        real_os.chdir(path)

    @builtin
    def fchdir(fd: Any) -> None:
        chdir(fd)

    return Facade(
        space,
        real_os,
        {
            **functions_of_os(),
            "chdir": chdir,
            "fchdir": fchdir,
            "system": builtin(system(popen(_start_in(process), _now_in(process)))),
            "_exit": process.exit_now,
            "abort": abort,
            "environ": environ,
            "fork": fork,
            "getenv": getenv,
            "getpid": builtin(lambda: process.pid),
            "getppid": getppid,
            "kill": kill,
            "putenv": putenv,
            "register_at_fork": _ignore_fork,
            "unsetenv": unsetenv,
            "urandom": urandom,
        },
    )


def make_subprocess(space: ModuleSpace) -> ModuleType:
    return Facade(space, subprocess, functions(_start_in(space.process), _now_in(space.process)))


def make_fcntl(space: ModuleSpace) -> ModuleType:
    real = importlib.import_module("fcntl")

    def sleep(seconds: float) -> None:
        space.process.group.runtime.sleep(seconds)

    def lockf(fd: Any, how: int, *_range: int) -> None:
        # All processes are one to the system, which keeps those locks apart alone that belong to an open file, a whole one.
        found["flock"](fd, how)

    found = file_locks.functions(real, sleep)
    return Facade(space, real, {**found, "lockf": lockf})


def _now_in(process: SimProcess) -> Callable[[], float]:
    return lambda: process.group.runtime.now()


def _start_in(process: SimProcess) -> Start:
    from squall.sim.scripts.compat.programs import start_in  # which imports torch

    return start_in(process)


def _ignore_fork(**_: Any) -> None:
    """A simulated process never forks."""


def make_sys(space: ModuleSpace) -> ModuleType:
    return WriteThroughFacade(space, real_sys, {"modules": LoadedModules(space)})


def make_atexit(space: ModuleSpace) -> ModuleType:
    handlers: list[tuple[Callable[..., object], Any, Any]] = space.process.exit_handlers

    def register(func: Callable[..., object], /, *args: Any, **kwargs: Any) -> Any:
        if not callable(func):
            raise TypeError("the first argument must be callable")
        handlers.append((func, args, kwargs))
        return func

    def unregister(func: Callable[..., object], /) -> None:
        handlers[:] = [handler for handler in handlers if handler[0] != func]

    return Facade(
        space,
        real_atexit,
        {
            "_clear": handlers.clear,
            "_ncallbacks": handlers.__len__,
            "_run_exitfuncs": space.process.run_exit_handlers,
            "register": register,
            "unregister": unregister,
        },
    )


def make_importlib(space: ModuleSpace) -> ModuleType:
    return Facade(
        space,
        importlib,
        {
            "__import__": space.import_,
            "import_module": space.import_module,
            "reload": space.reload,
        },
    )


def make_importlib_util(space: ModuleSpace) -> ModuleType:
    def module_from_spec(spec: ModuleSpec) -> ModuleType:
        module = real_util.module_from_spec(spec)
        if module.__name__ not in real_sys.modules:
            # What its loader executes then imports through this process.
            module.__dict__["__builtins__"] = space.builtins.__dict__
        return module

    return Facade(space, real_util, {"module_from_spec": module_from_spec})
