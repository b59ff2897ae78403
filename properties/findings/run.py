"""Runs the stand-alone scripts on some torch, and keeps what they print."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from squall.properties.findings.finding import Finding
from squall.properties.findings.results import NO_LINE, Result

#: a line that a script prints of its own accord
_LINE = re.compile(r"^(?:BUG|OK) .+$", re.M)
#: seconds between looks at what runs
_TICK_S = 0.05
#: seconds that control.py may take, which waits for nobody
CONTROL_LIMIT_S = 60.0


@dataclass(eq=False)
class _Running:
    """Python with these words, in a process group of its own."""

    words: list[str]
    python: Path | str
    limit_s: float
    stderr: int = subprocess.DEVNULL
    out: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def __post_init__(self) -> None:
        self.ends_s = time.monotonic() + self.limit_s
        self.process = subprocess.Popen(
            [str(self.python), *self.words],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.stderr,
            start_new_session=True,
        )

    @property
    def over(self) -> bool:
        return self.process.poll() is not None or time.monotonic() > self.ends_s

    def stop(self) -> None:
        """Whatever it started ends with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ended(self) -> tuple[int | None, str]:
        """Its exit code, None if it was stopped, and all that it printed."""
        code = self.process.poll()
        self.stop()
        with self.out as out:
            out.seek(0)
            return code, out.read().decode(errors="replace")

    def line(self) -> str:
        """The one line it printed, or why there is none."""
        code, printed = self.ended()
        lines = _LINE.findall(printed)
        if len(lines) > 1:
            return f"{NO_LINE}: it printed {len(lines)}"
        why = f"stopped after {self.limit_s:g} s" if code is None else f"it ended with code {code}"
        return lines[0] if lines else f"{NO_LINE}: {why}"


def one_line(script: Path, python: Path | str = sys.executable, *, limit_s: float) -> str:
    """The line that one script prints, or ``no line: …`` and why."""
    with _finished(_Running([str(script)], python, limit_s)) as running:
        return running.line()


def output(words: list[str], *, limit_s: float) -> tuple[int | None, str]:
    """The exit code of this Python with these words, None if it took longer, and all that it says."""
    with _finished(_Running(words, sys.executable, limit_s, subprocess.STDOUT)) as running:
        return running.ended()


@contextlib.contextmanager
def _finished(running: _Running) -> Iterator[_Running]:
    """When it has ended, or its time is over; nothing of it is left behind."""
    try:
        while not running.over:
            time.sleep(_TICK_S)
        yield running
    finally:
        running.stop()


def run_all(
    found: Iterable[Finding],
    python: Path | str = sys.executable,
    *,
    at_once: int = 1,
    patience: float = 1.0,
) -> Iterator[tuple[Finding, Result]]:
    """Each finding with what its scripts print, as they end, ``at_once`` scripts at a time.
    ``patience``: times the limit of each, for a machine that is busy.

    Nothing is left running when the iteration ends, also by an error or Ctrl-C.
    """
    # Those that wait longest begin first.
    waiting = sorted((one for one in found if one.stock), key=lambda one: -one.facts.limit_s)
    running: dict[_Running, Finding] = {}
    stocks: dict[str, str] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                one = waiting.pop(0)
                assert one.stock is not None
                running[_Running([str(one.stock)], python, patience * one.facts.limit_s)] = one
            for script in [script for script in running if script.over]:
                one = running.pop(script)
                line = script.line()
                if one.name not in stocks and one.control:
                    stocks[one.name] = line
                    running[_Running([str(one.control)], python, patience * CONTROL_LIMIT_S)] = one
                else:
                    stock = stocks.pop(one.name, None)
                    yield one, Result(line) if stock is None else Result(stock, line)
            time.sleep(_TICK_S)
    finally:
        for script in running:
            script.stop()
