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
    """A script in a process group of its own."""

    script: Path
    python: Path | str
    limit_s: float
    out: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def __post_init__(self) -> None:
        self.ends_s = time.monotonic() + self.limit_s
        self.process = subprocess.Popen(
            [str(self.python), str(self.script)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=subprocess.DEVNULL,
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

    def line(self) -> str:
        """The one line it printed, or why there is none."""
        code = self.process.poll()
        self.stop()
        self.out.seek(0)
        lines = _LINE.findall(self.out.read().decode(errors="replace"))
        self.out.close()
        if len(lines) > 1:
            return f"{NO_LINE}: it printed {len(lines)}"
        why = f"stopped after {self.limit_s:g} s" if code is None else f"it ended with code {code}"
        return lines[0] if lines else f"{NO_LINE}: {why}"


def one_line(script: Path, python: Path | str = sys.executable, *, limit_s: float) -> str:
    """The line that one script prints, or ``no line: …`` and why."""
    running = _Running(script, python, limit_s)
    try:
        while not running.over:
            time.sleep(_TICK_S)
        return running.line()
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
                running[_Running(one.stock, python, patience * one.facts.limit_s)] = one
            for script in [script for script in running if script.over]:
                one = running.pop(script)
                line = script.line()
                if one.name not in stocks and one.control:
                    stocks[one.name] = line
                    running[_Running(one.control, python, patience * CONTROL_LIMIT_S)] = one
                else:
                    stock = stocks.pop(one.name, None)
                    yield one, Result(line) if stock is None else Result(stock, line)
            time.sleep(_TICK_S)
    finally:
        for script in running:
            script.stop()
