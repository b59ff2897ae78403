"""Plays tests in copies of this process, a few at a time, so that none can harm another.

A copy has PyTorch and its test utilities imported already, which takes longer than most tests.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from squall.properties.conformance.cluster import play
from squall.properties.conformance.tests import LOG_CHARACTERS, MissingPackageError, Played, Test
from squall.sim.world.sandbox import Contained

#: of wall time, for one test
TIMEOUT_S = 60.0


def play_all(
    tests: Sequence[Test], *, jobs: int = 1, timeout_s: float = TIMEOUT_S
) -> Iterator[tuple[Test, Played]]:
    """Each test with what became of it, as they end, at most ``jobs`` at a time.

    A test that takes more than ``timeout_s`` seconds of wall time has failed. Imports PyTorch's
    test utilities, which change settings (Hypothesis's among them): see :class:`Player` for
    whoever minds. Raises :class:`MissingPackageError`.
    """
    try:
        importlib.import_module("torch.testing._internal.common_distributed")
    except ModuleNotFoundError as error:
        raise MissingPackageError.named(error.name) from None
    waiting = deque(tests)
    running: dict[Connection, _Playing] = {}
    with tempfile.TemporaryDirectory(prefix="squall-conformance-") as directory:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    playing = _Playing(waiting.popleft(), Path(directory), timeout_s)
                    running[playing.copy.connection] = playing
                nearest = min(playing.deadline for playing in running.values())
                ready = wait(list(running), max(0.0, nearest - time.monotonic()))
                late = [c for c, each in running.items() if each.deadline <= time.monotonic()]
                for connection in dict.fromkeys([*ready, *late]):
                    assert isinstance(connection, Connection)
                    playing = running.pop(connection)
                    yield playing.test, playing.played()
        finally:
            for playing in running.values():
                playing.copy.end()


class _Playing:
    """A test that a copy of this process plays."""

    def __init__(self, test: Test, directory: Path, timeout_s: float) -> None:
        self.test = test
        self._directory = directory / test.id
        self._directory.mkdir()
        self._log = self._directory / "log"
        self._started = time.monotonic()
        self._timeout_s = timeout_s
        self.deadline = self._started + timeout_s
        self.copy = Contained(_play, test, self._directory, self._log, timeout_s)

    def played(self) -> Played:
        """What it has answered, if it has; the copy is gone then."""
        answered = self.copy.connection.poll()
        try:
            found: Played | None = self.copy.connection.recv() if answered else None
        except EOFError:
            found = None
        code = self.copy.end()
        if found is None and answered:
            found = Played("failed", f"the process that played it died (exit code {code})")
        elif found is None:
            found = Played("failed", f"no end within {self._timeout_s:g} s of wall time")
        log = self._log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARACTERS:]
        return replace(found, log=log, seconds=time.monotonic() - self._started)


def _play(connection: Connection, test: Test, directory: Path, log: Path, timeout_s: float) -> None:
    """What the copy does."""
    gc.disable()
    signal.alarm(int(timeout_s) + 5)  # if nobody waits any more
    output = log.open("w", encoding="utf-8", buffering=1)
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    sys.stdout = sys.stderr = output
    # The log of a test that took too long shows where it was.
    faulthandler.dump_traceback_later(max(1.0, timeout_s - 2.0), file=output)
    try:
        played = play(test, directory, output)
    except BaseException as error:
        traceback.print_exc(file=output)
        played = Played("failed", f"the simulator raised {type(error).__name__}: {error}")
    output.flush()
    connection.send(played)


class Player:
    """Plays one test after the other for a process that must not import what they need.

    A copy of this process does, once, and is copied for each test. A context manager.
    """

    def __init__(self) -> None:
        self._copy = Contained(_answer)

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *_: object) -> None:
        self._copy.wait()

    def play(self, test: Test) -> Played:
        """Raises :class:`MissingPackageError`."""
        self._copy.connection.send(test)
        answer: Played | MissingPackageError = self._copy.connection.recv()
        if isinstance(answer, MissingPackageError):
            raise answer
        return answer


def _answer(connection: Connection) -> None:
    """What the copy of a :class:`Player` does."""
    while True:
        test: Test = connection.recv()
        try:
            [(_, played)] = play_all([test])
        except MissingPackageError as error:
            connection.send(error)
        else:
            connection.send(played)
