"""Pipes between the processes of a script, as the coordinator keeps them: what one has written waits
for the one that reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from squall.sim.stock.cluster import NativeCluster
from squall.sim.stock.worker import NativeWorker


@dataclass(eq=False)
class Pipe:
    """``writer`` and ``reader``: None until they are there. ``waiting``: who reads, the question, and how
    many bytes at most."""

    writer: NativeWorker | None = None
    reader: NativeWorker | None = None
    data: bytearray = field(default_factory=bytearray)
    ended: bool = False
    waiting: list[tuple[NativeWorker, int, int]] = field(default_factory=list)

    def is_ready(self) -> bool:
        return bool(self.data) or self.ended or not (self.writer and self.writer.alive)


class Pipes:
    """Answers what sim/stock/script_programs.py asks about pipes, which are known by their numbers."""

    def __init__(self, cluster: NativeCluster) -> None:
        self._cluster = cluster
        self._pipes: list[Pipe] = []
        for word in ("pipe read", "pipe write", "pipe end"):
            cluster.answers[word] = getattr(self, "_" + word.removeprefix("pipe "))

    def add(self) -> int:
        self._pipes.append(Pipe())
        return len(self._pipes) - 1

    def connect(self, number: int, writer: NativeWorker, reader: NativeWorker) -> None:
        self._pipes[number].writer, self._pipes[number].reader = writer, reader

    def gone(self, worker: NativeWorker) -> None:
        """A process has ended: it will write nothing more."""
        for pipe in self._pipes:
            if pipe.writer is worker:
                self._serve(pipe)

    def _read(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        number, most = rest
        pipe = self._pipes[number]
        pipe.waiting.append((worker, question, most))
        self._serve(pipe)

    def _write(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        """Answered with whether anybody could read it."""
        number, data = rest
        pipe = self._pipes[number]
        is_read = pipe.reader is not None and pipe.reader.alive
        if is_read:
            pipe.data += data
        self._cluster.answer(worker, question, is_read)
        self._serve(pipe)

    def _end(self, worker: NativeWorker, question: int, rest: tuple[Any, ...]) -> None:
        pipe = self._pipes[rest[0]]
        pipe.ended = True
        self._cluster.answer(worker, question, None)
        self._serve(pipe)

    def _serve(self, pipe: Pipe) -> None:
        while pipe.waiting and pipe.is_ready():
            worker, question, most = pipe.waiting.pop(0)
            data = bytes(pipe.data[:most])
            del pipe.data[:most]
            self._cluster.answer(worker, question, data)
