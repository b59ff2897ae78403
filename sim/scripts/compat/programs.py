"""Processes that a simulated process starts with ``subprocess``, on a script, a text or a module."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from squall.sim.scripts.compat.children import coordinator
from squall.sim.scripts.compat.clock import look
from squall.sim.scripts.compat.process import OWN_RANK, SimProcess
from squall.sim.scripts.ranks import inherited
from squall.sim.scripts.subprocesses import (
    ReadEnd,
    Request,
    Start,
    Started,
    WriteEnd,
    file_not_there,
    module_spec,
    reading,
    writing,
)


def start_in(parent: SimProcess) -> Start:
    """What starts processes for ``parent``."""

    def start(request: Request) -> Started:
        return _start(parent, request)

    return start


def _start(parent: SimProcess, request: Request) -> Started:
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
    find = group.program.find
    spec = module_spec(command.what, find, path) if command.kind == "module" else None
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
    return Started(partial(coordinator(parent.group).ask, parent), look, process.pid, pipes)


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


def _connect(process: SimProcess, parent: SimProcess, request: Request) -> dict[int, int]:
    """Give a new process its streams; the pipes between it and its parent, by their number."""
    answering = coordinator(parent.group)
    pipes: dict[int, int] = {}
    kind = request.streams[0]
    if kind == "pipe":
        pipes[0] = answering.children.pipes.add()
        answering.children.pipes.connect(pipes[0], parent, process)
        process.stdin = reading(ReadEnd(partial(answering.ask_here, "pipe read", pipes[0])))
    elif kind != "inherit":
        process.stdin = reading(_file(process, os.devnull if kind == "null" else kind, "rb"))
    for number in (1, 2):
        kind = request.streams[number]
        if kind == "pipe":
            pipes[number] = pipe = answering.children.pipes.add()
            answering.children.pipes.connect(pipe, process, parent)
            write = partial(answering.ask_here, "pipe write", pipe)
            process.files[number] = writing(WriteEnd(write))
        elif kind == "stdout":
            process.files[2] = process.files[1]
        elif kind in (1, 2):
            process.files[number] = parent.files[int(kind)]
        elif kind != "inherit":
            where = os.devnull if kind == "null" else kind
            process.files[number] = writing(_file(process, where, "wb"))
    process.stdout.redirect(process.files[1])
    process.stderr.redirect(process.files[2])
    return pipes


def _file(process: SimProcess, where: Any, mode: str) -> io.FileIO:
    """A file by its name, or by its number in the parent."""
    file = io.FileIO(os.dup(where) if isinstance(where, int) else where, mode)
    process.group.at_the_end.callback(file.close)
    return file
