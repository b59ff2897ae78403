"""Processes that a simulated process starts with ``subprocess``, on a script, a text or a module."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squall.sim.scripts.compat.clock import look
from squall.sim.scripts.compat.process import OWN_RANK, SIGKILL, SimProcess
from squall.sim.scripts.compat.signals import deliver
from squall.sim.scripts.compat.waiting import Waitable, wait_for_any
from squall.sim.scripts.python_command import CannotRun, PythonCommand
from squall.sim.scripts.ranks import inherited
from squall.sim.scripts.subprocesses import ReadEnd, Request, Start, WriteEnd, file_not_there

if TYPE_CHECKING:
    from squall.real.runtime import Event


class Pipe:
    """Bytes from one process to another. It takes whatever is written."""

    def __init__(self, what: str, writer: SimProcess) -> None:
        self._what = what
        self._data = bytearray()
        self._writer = writer
        self._ended = False
        self.watchers: list[Event] = []

    def write(self, data: bytes) -> None:
        self._data += data
        self._changed()

    def end(self) -> None:
        self._ended = True
        self._changed()

    def read(self, most: int) -> bytes:
        """At least a byte; b"" once no more can come."""
        ends: list[Waitable] = [self, self._writer]
        while not (self._data or self._ended or self._writer.has_ended):
            wait_for_any(ends)
        data = bytes(self._data[:most])
        del self._data[:most]
        return data

    def is_ready(self) -> bool:
        return bool(self._data) or self._ended

    def _changed(self) -> None:
        for watcher in self.watchers:
            watcher.set()

    def __str__(self) -> str:
        return self._what


class Program:
    """A :class:`~squall.sim.scripts.subprocesses.Started` on this engine."""

    def __init__(self, process: SimProcess, pipes: Mapping[int, Pipe]) -> None:
        self._process = process
        self._pipes = pipes
        self.pid = process.pid

    def poll(self) -> int | None:
        look()
        return self._process.exit_code if self._process.ended.is_set() else None

    def wait(self, timeout_s: float | None) -> int | None:
        self._process.ended.wait(timeout_s)
        return self._process.exit_code if self._process.ended.is_set() else None

    def signal(self, number: int) -> None:
        if self._process.has_ended:
            return
        if number == SIGKILL:
            self._process.terminate(-SIGKILL)
        else:
            deliver(self._process, number)

    def feed(self, data: bytes) -> None:
        if self._process.has_ended:
            raise BrokenPipeError(32, "Broken pipe")
        self._pipes[0].write(data)

    def end_feed(self) -> None:
        self._pipes[0].end()

    def read(self, stream: int, most: int) -> bytes:
        return self._pipes[stream].read(most)


def start_in(parent: SimProcess) -> Start:
    """What starts processes for ``parent``."""

    def start(request: Request) -> Program:
        return _start(parent, request)

    return start


def _start(parent: SimProcess, request: Request) -> Program:
    group, command = parent.group, request.command
    folder = request.cwd or os.getcwd()
    if request.cwd is not None and not os.path.samefile(request.cwd, os.getcwd()):
        group.keep_folders_apart()
    if request.environ is None:
        environ = inherited(parent.environ, parent.locals.get(OWN_RANK, {}))
    else:
        environ = dict(request.environ)
    script = Path(folder, command.what) if command.kind == "script" else None
    if script is not None:
        group.program.add(script)
    path = _search_path(parent, script, folder, environ)
    spec = _module(parent, command, path) if command.kind == "module" else None
    what = command.what if spec is None else str(spec.origin)
    first = "-c" if command.kind == "code" else what
    process = group.create(
        name=Path(first).name if command.kind != "code" else f"python -c {parent.count('code')}",
        parent=parent,
        rank=None,
        script=script,
        argv=[first, *command.args],
        environ=environ,
        path=path,
    )
    process.is_program = True
    if group.has_folders:
        process.folder = folder
    pipes = _connect(process, parent, request)

    def body() -> None:
        if command.kind == "code":
            process.run_text(command.what)
        elif spec is not None:
            process.run_module(spec)
        else:
            assert script is not None
            try:
                group.program.code(str(script.resolve()))
            except OSError as error:
                sys.stderr.write(file_not_there(str(script), error))
                raise SystemExit(2) from None
            process.run_script()

    process.start(body)
    return Program(process, pipes)


def _search_path(
    parent: SimProcess, script: Path | None, folder: str, environ: Mapping[str, str]
) -> list[str]:
    """``sys.path`` of the new process: the folder of its script, or its own, and what ``PYTHONPATH``
    says before what is there anyway."""
    said = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    more = [os.path.join(folder, entry) for entry in said]
    rest = [entry for entry in parent.group.program.search_path if entry not in more]
    first = folder if script is None else str(script.resolve().parent)
    return [first, *more, *rest]


def _module(parent: SimProcess, command: PythonCommand, path: list[str]) -> ModuleSpec:
    """That of ``python -m``. Raises :class:`CannotRun` unless it is the user's."""
    program, name = parent.group.program, command.what
    spec, places = None, path
    for end in [at for at, letter in enumerate(f"{name}.") if letter == "."]:
        spec = program.find(name[:end], places)
        if spec is None:
            break
        places = list(spec.submodule_search_locations or ())
    if spec is not None and spec.submodule_search_locations is not None:
        spec = program.find(f"{name}.__main__", places)
    if spec is None or spec.origin is None:
        raise CannotRun("subprocess.Popen", f"the module {name} is none of the script's own")
    return spec


def _connect(process: SimProcess, parent: SimProcess, request: Request) -> dict[int, Pipe]:
    """Give a new process its streams; the pipes between it and its parent, by their number."""
    pipes: dict[int, Pipe] = {}
    kind = request.streams[0]
    if kind == "pipe":
        pipes[0] = Pipe(f"what {process} reads", parent)
        process.stdin = _reading(ReadEnd(pipes[0].read))
    elif kind != "inherit":
        process.stdin = _reading(_file(process, os.devnull if kind == "null" else kind, "rb"))
    for number in (1, 2):
        kind = request.streams[number]
        if kind == "pipe":
            pipes[number] = pipe = Pipe(f"what {process} writes", process)
            process.files[number] = _writing(WriteEnd(pipe.write))
        elif kind == "stdout":
            process.files[2] = process.files[1]
        elif kind in (1, 2):
            process.files[number] = parent.files[int(kind)]
        elif kind != "inherit":
            where = os.devnull if kind == "null" else kind
            process.files[number] = _writing(_file(process, where, "wb"))
    process.stdout.redirect(process.files[1])
    process.stderr.redirect(process.files[2])
    return pipes


def _file(process: SimProcess, where: Any, mode: str) -> io.FileIO:
    """A file by its name, or by its number in the parent."""
    file = io.FileIO(os.dup(where) if isinstance(where, int) else where, mode)
    process.group.at_the_end.callback(file.close)
    return file


def _reading(raw: io.RawIOBase) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")


def _writing(raw: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
