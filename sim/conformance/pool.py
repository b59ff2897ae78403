"""Plays tests in forked copies of this process, a few at a time, so that none can harm another.

A copy has PyTorch and its test utilities imported already, which takes longer than most tests.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import multiprocessing
import os
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from squall.sim.conformance.cluster import Played, play

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from squall.sim.conformance.suites import Test

#: of wall time, for one test
TIMEOUT_S = 60.0
#: how much of what a test printed is kept
LOG_CHARACTERS = 12_000


class MissingPackageError(RuntimeError):
    """A package that PyTorch's test utilities need is not installed."""


def play_all(
    tests: Sequence[Test], *, jobs: int = 1, timeout_s: float = TIMEOUT_S
) -> Iterator[tuple[Test, Played]]:
    """Each test with what became of it, as they end, at most ``jobs`` at a time.

    A test that takes more than ``timeout_s`` seconds of wall time has failed. Imports PyTorch's
    test utilities, which change settings (Hypothesis's among them): see :class:`Player` for
    whoever minds. Raises :class:`MissingPackageError`.
    """
    _preload()
    waiting = list(reversed(tests))
    running: dict[int, _Child] = {}
    with tempfile.TemporaryDirectory(prefix="squall-conformance-") as name:
        directory = Path(name)
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    child = _Child(waiting.pop(), directory, timeout_s)
                    running[child.pipe] = child
                nearest = min(child.deadline for child in running.values())
                left = max(0.0, nearest - time.monotonic())
                readable, _, _ = select.select(list(running), [], [], left)
                for pipe in readable:
                    if running[pipe].read():
                        child = running.pop(pipe)
                        yield child.test, child.result()
                now = time.monotonic()
                for pipe in [p for p, child in running.items() if child.deadline <= now]:
                    child = running.pop(pipe)
                    yield child.test, child.too_late(timeout_s)
        finally:
            for child in running.values():
                child.end()


def _preload() -> None:
    try:
        importlib.import_module("torch.testing._internal.common_distributed")
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"PyTorch's test utilities need the package {error.name}: pip install {error.name}"
        ) from None


class Player:
    """Plays one test after the other for a process that must not import what they need.

    A copy of this process does, once, and is copied for each test. A context manager.
    """

    def __init__(self) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._pid = _fork()
        if self._pid == 0:
            self._pipe.close()
            _serve(theirs)
        theirs.close()

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        os.waitpid(self._pid, 0)

    def play(self, test: Test) -> Played:
        """Raises :class:`MissingPackageError`."""
        self._pipe.send(test)
        answer = self._pipe.recv()
        if isinstance(answer, MissingPackageError):
            raise answer
        assert isinstance(answer, Played)
        return answer


def _serve(pipe: Connection) -> NoReturn:
    try:
        with contextlib.suppress(EOFError):
            while True:
                test: Test = pipe.recv()
                try:
                    [(_, played)] = play_all([test])
                except MissingPackageError as error:
                    pipe.send(error)
                else:
                    pipe.send(played)
    finally:
        os._exit(0)


def _fork() -> int:
    """``os.fork``; the copy ignores interrupts, which whoever waits for its answer decides on."""
    # What is raised while Python sees to a fork is lost, and the copy must not be interrupted here.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            # Python warns of other threads; the copy runs none of them and waits for none.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


class _Child:
    """A copy of this process that plays one test and says through a pipe what came of it."""

    def __init__(self, test: Test, directory: Path, timeout_s: float) -> None:
        self.test = test
        self.directory = directory / test.id
        self.directory.mkdir()
        self.log = self.directory / "log"
        self.started = time.monotonic()
        self.deadline = self.started + timeout_s
        self._answer = b""
        self.pipe, writing = os.pipe()
        self.pid = _fork()
        if self.pid == 0:
            _play(test, self.directory, self.log, writing, timeout_s)
        os.close(writing)

    def read(self) -> bool:
        """Take what the child says; True once it has said everything."""
        part = os.read(self.pipe, 1 << 16)
        self._answer += part
        return not part

    def result(self) -> Played:
        status = self.end()
        if self._answer:
            outcome, why = json.loads(self._answer)
        else:
            outcome, why = "failed", f"the process that played it died (wait status {status})"
        return self._played(outcome, why)

    def too_late(self, timeout_s: float) -> Played:
        self.end()
        return self._played("failed", f"no end within {timeout_s:g} s of wall time")

    def end(self) -> int:
        """Make sure that the child is gone; its wait status."""
        os.close(self.pipe)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # it has answered, or never will
        return os.waitpid(self.pid, 0)[1]

    def _played(self, outcome: str, why: str) -> Played:
        log = self.log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARACTERS:]
        seconds = time.monotonic() - self.started
        if outcome == "passed":
            return Played("passed", why, log, seconds)
        return Played("skipped" if outcome == "skipped" else "failed", why, log, seconds)


def _play(test: Test, directory: Path, log: Path, pipe: int, timeout_s: float) -> None:
    """Never returns."""
    code = 1
    try:
        gc.disable()
        signal.alarm(int(timeout_s) + 5)  # if nobody waits any more
        output = log.open("w", encoding="utf-8", buffering=1)
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
        sys.stdout = sys.stderr = output
        # Whoever reads the log of a test that took too long finds where it was.
        faulthandler.dump_traceback_later(max(1.0, timeout_s - 2.0), file=output)
        try:
            played = play(test, directory, output)
        except BaseException as error:
            import traceback

            traceback.print_exc(file=output)
            played = Played("failed", f"the simulator raised {type(error).__name__}: {error}")
        output.flush()
        view = memoryview(json.dumps([played.outcome, played.why]).encode())
        while view:
            view = view[os.write(pipe, view) :]
        code = 0
    finally:
        os._exit(code)
