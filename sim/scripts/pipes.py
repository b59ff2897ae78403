"""Pipes of bytes between processes of a script, on either engine: what one has written waits for the one that
reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from squall.sim.scripts.waits import Coordinator, Waits


@dataclass(eq=False)
class _Pipe:
    """``writer`` and ``reader``: None until they are there."""

    writer: Any = None
    reader: Any = None
    data: bytearray = field(default_factory=bytearray)
    ended: bool = False


class Pipes:
    """Answers what :class:`~squall.sim.scripts.subprocesses.Started` asks about pipes, which are known by their
    numbers. ``waits``: in which one waits who reads."""

    def __init__(self, coordinator: Coordinator, waits: Waits) -> None:
        self._coordinator, self._waits = coordinator, waits
        self._pipes: list[_Pipe] = []
        for word in ("read", "write", "end"):
            coordinator.answers[f"pipe {word}"] = getattr(self, f"_{word}")

    def add(self) -> int:
        self._pipes.append(_Pipe())
        return len(self._pipes) - 1

    def connect(self, number: int, writer: Any, reader: Any) -> None:
        self._pipes[number].writer, self._pipes[number].reader = writer, reader

    def _read(self, worker: Any, question: Any, number: int, most: int) -> None:
        """Answered with some bytes, b"" once no more can come."""
        pipe = self._pipes[number]

        def take() -> tuple[bytes] | None:
            if not (pipe.data or pipe.ended or not (pipe.writer and pipe.writer.alive)):
                return None
            data = bytes(pipe.data[:most])
            del pipe.data[:most]
            return (data,)

        self._waits.until(worker, question, take)

    def _write(self, worker: Any, question: Any, number: int, data: bytes) -> None:
        """Answered with whether anybody could read it."""
        pipe = self._pipes[number]
        is_read = pipe.reader is not None and pipe.reader.alive
        if is_read:
            pipe.data += data
        self._coordinator.answer(worker, question, is_read)
        self._waits.look()

    def _end(self, worker: Any, question: Any, number: int) -> None:
        self._pipes[number].ended = True
        self._coordinator.answer(worker, question, None)
        self._waits.look()
