"""Processes that a script starts with ``multiprocessing.Process`` or ``subprocess``, as the coordinator
sees them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from squall.sim.scripts import exchange
from squall.sim.scripts.compat.process import FIRST_PID, SIGKILL
from squall.sim.scripts.subprocesses import StreamKind
from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.worker import NativeWorker


class Children(exchange.Children):
    """Answers what sim/stock/script_children.py and script_programs.py ask: a child is known by its
    number as a process.

    ``start``: makes one, given its parent, its environment, whether that is its parent's, and as words what
    :class:`~squall.sim.stock.script.ScriptProcesses` is to tell it. ``codes``: exit codes
    of processes that have ended by themselves, or by a signal of the script's.
    """

    def __init__(self, cluster: NativeCluster, start: Callable[..., NativeWorker]) -> None:
        super().__init__(cluster)
        self._cluster = cluster
        self._start = start
        #: by process: what its streams are, if not its own; see :meth:`_program`
        self._streams: dict[NativeWorker, dict[int, int | str]] = {}
        #: files that processes write to or read from, as the coordinator has them open
        self._files: list[int] = []
        self.codes: dict[NativeWorker, int] = {}
        self._by_pid: dict[int, NativeWorker] = {}
        for word in ("child", "file taken", "program"):
            cluster.answers[word] = getattr(self, "_" + word.replace(" ", "_"))
        cluster.on_gone.append(self.gone)

    def _child(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        call, environ, forked, number = rest

        def start() -> None:
            pid = FIRST_PID + len(self._cluster.workers)
            child = self._by_pid[pid] = self._start(
                worker, environ, call=call, forked=forked, number=number
            )
            if forked:
                self._exchange.forked(worker, child)
            self._cluster.answer(worker, question, pid)

        self._cluster.runtime.call_later(0.0, start)

    def close(self) -> None:
        """The run is over: no process opens a file any more."""
        while self._files:
            os.close(self._files.pop())

    def _program(self, worker: NativeWorker, question: int, *rest: Any) -> None:
        """Start a process of ``subprocess``, and answer with its id and the numbers of its pipes.

        A stream is the number of a pipe, or the path of a file; one that is not named is the
        process's own.
        """
        command, environ, inherits, folder, kinds = rest
        streams = dict(self._streams.get(worker, {}))
        files = {number: self._opened(worker, kind) for number, kind in enumerate(kinds)}

        def start() -> None:
            pid = FIRST_PID + len(self._cluster.workers)
            told = {"command": command, "folder": folder, "streams": streams}
            pipes = {}
            for number, kind in enumerate(kinds):
                if kind == "pipe":
                    streams[number] = pipes[number] = self.pipes.add()
                elif kind == "stdout":
                    if 1 in streams:
                        streams[2] = streams[1]
                elif kind in (1, 2) and kind != number:
                    streams[number] = streams.get(kind, f"/proc/self/fd/{kind}")
                elif (file := files[number]) is not None:
                    streams[number] = file
            child = self._by_pid[pid] = self._start(
                worker, environ, inherits=inherits, program=told
            )
            self._streams[child] = streams
            for number, pipe in pipes.items():
                ends = (worker, child) if number == 0 else (child, worker)
                self.pipes.connect(pipe, *ends)
            self._cluster.answer(worker, question, (pid, pipes))

        self._cluster.runtime.call_later(0.0, start)

    def _opened(self, worker: NativeWorker, kind: StreamKind) -> str | None:
        """Where another process can open the file that a process has by that number."""
        if kind == "null":
            return os.devnull
        if not isinstance(kind, int) or kind in (0, 1, 2):
            return None
        path = f"/proc/{worker.process.pid}/fd/{kind}"
        flags = os.O_RDONLY if _is_read_only(worker.process.pid, kind) else os.O_WRONLY
        self._files.append(os.open(path, flags))
        return f"/proc/{os.getpid()}/fd/{self._files[-1]}"

    def process(self, pid: int) -> NativeWorker | None:
        return self._by_pid.get(pid)

    def code(self, child: NativeWorker) -> int:
        code = self.codes.get(child, child.process.exit_code)
        return -9 if code is None else code

    def signal(self, child: NativeWorker, number: int) -> None:
        if number == SIGKILL or not self._cluster.call(child, "signal", number):
            self.codes[child] = -number
            self._cluster.end(child)

    def _file_taken(self, worker: NativeWorker, question: int, pid: int, fd: int) -> None:
        """Who has been sent a file has it open."""
        for each in self._cluster.workers:
            if each.alive and each.process.pid == pid:
                self._cluster.runtime.call_later(
                    0.0, partial(self._cluster.call, each, "file_taken", fd)
                )
        self._cluster.answer(worker, question, None)

    def _child_kill(self, worker: NativeWorker, question: int, pid: int, number: int) -> None:
        kill = partial(super()._child_kill, worker, question, pid, number)
        self._cluster.runtime.call_later(0.0, kill)


def _is_read_only(pid: int, fd: int) -> bool:
    with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
        flags = next(line.split()[1] for line in file if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
