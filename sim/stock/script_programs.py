"""Inside a worker process of a script: processes that ``subprocess`` starts, and what such a process
finds. The coordinator starts them and keeps the pipes between them."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from importlib.machinery import PathFinder
from typing import Any

from squall.real.native.here import Here
from squall.sim.scripts.python_command import PythonCommand
from squall.sim.scripts.rounds import compiled
from squall.sim.scripts.subprocesses import (
    ReadEnd,
    Request,
    Started,
    WriteEnd,
    file_not_there,
    module_spec,
    popen,
    reading,
    system,
    writing,
)

_subprocess: Any = subprocess


def install(here: Here, look: Callable[[], object]) -> None:
    """Let ``subprocess`` and ``os.system`` start Python in the simulation from now on. ``look``:
    see :func:`squall.sim.stock.script_children.install`."""

    def start(request: Request) -> Started:
        sys.stdout.flush()
        inherits = request.environ is None
        environ = dict(os.environ if request.environ is None else request.environ)
        folder = request.cwd or os.getcwd()
        command = located(request.command, folder, environ)
        pid, pipes = here.ask("program", command, environ, inherits, folder, request.streams)
        return Started(here.ask, look, pid, pipes)

    having = having_popen()
    _subprocess.Popen = popen(start, here.now)
    for name in having:
        vars(sys.modules[name])["Popen"] = _subprocess.Popen
    vars(os)["system"] = system(_subprocess.Popen)


@cache
def having_popen() -> list[str]:
    """Modules that have ``subprocess.Popen`` by its name. To be asked in the process that is copied: it reads
    all modules that there are, and what a copy reads for the first time is copied."""
    real = _subprocess.Popen
    return [name for name, module in list(sys.modules.items()) if vars(module).get("Popen") is real]


def located(command: PythonCommand, folder: str, environ: Any) -> PythonCommand:
    """A command with the whole path of what it runs. Raises :class:`CannotRun` for a module that is not the
    user's."""
    if command.kind == "script":
        whole = os.path.join(folder, command.what)
        return PythonCommand("script", whole, (command.what, *command.args))
    if command.kind == "code":
        return PythonCommand("code", command.what, ("-c", *command.args))
    places = [folder, *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    spec = module_spec(command.what, PathFinder.find_spec, places)
    return PythonCommand("module", command.what, (str(spec.origin), *command.args))


def settle_in(here: Here, role: dict[str, Any]) -> None:
    """Take the place of a process that was started so: its folder, arguments, and streams."""
    program = role["program"]
    os.chdir(program["folder"])
    command: PythonCommand = program["command"]
    sys.argv[:] = command.args
    is_script = command.kind == "script"
    sys.path[0] = os.path.dirname(command.what) if is_script else program["folder"]
    said = role["environ"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [entry for entry in said if entry and entry not in sys.path]
    for number, stream in program["streams"].items():
        if isinstance(stream, str):
            _open(number, stream)
        elif number == 0:
            sys.stdin = reading(ReadEnd(partial(here.ask, "pipe read", stream)))
        else:
            file = writing(WriteEnd(partial(here.ask, "pipe write", stream)))
            setattr(sys, "stdout" if number == 1 else "stderr", file)


def _open(number: int, path: str) -> None:
    """Let a standard stream be that of a file."""
    flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND
    opened = os.open(path, flags)
    os.dup2(opened, number)
    os.close(opened)
    if number == 0:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


def run(role: dict[str, Any], module: Any) -> None:
    """Run what the command names, as the main module."""
    command: PythonCommand = role["program"]["command"]
    if command.kind == "code":
        del module.__dict__["__file__"]
        exec(compiled(command.what, "<string>"), module.__dict__)
        return
    if command.kind == "module":
        runpy.run_module(command.what, run_name="__main__", alter_sys=True)
        return
    try:
        with open(command.what, "rb") as file:
            text = file.read()
    except OSError as error:
        sys.stderr.write(file_not_there(command.what, error))
        raise SystemExit(2) from None
    exec(compiled(text, command.what), module.__dict__)
