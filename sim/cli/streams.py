"""What reaches the terminal while a script runs."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from squall.real.own_files import OWN_FILES
from squall.sim.cli.starting import STARTING
from squall.sim.world import interrupts


class Outlet:
    """Standard output, until it cannot be written: what was under way is then interrupted, once, and
    the rest of what is written goes nowhere. ``problem`` says why."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.problem: OSError | None = None

    def write(self, text: str) -> int:
        if STARTING:
            STARTING.pop().end()  # they may be one terminal
        if self.problem is None:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._lose(error)
        return len(text)

    def flush(self) -> None:
        if self.problem is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        self.problem = error
        # What is still to be written would fail again as Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        # What is interrupted on the way would complain of what it leaves behind.
        logging.disable(logging.CRITICAL)
        interrupts.stop()

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send to standard error whatever is written to descriptor 1, be it by C++ or a child."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Show a warning once, however many workers give it.

    A deprecation is shown to whoever can heed it: none whose place is squall's own code.
    """
    show_before = warnings.showwarning
    shown: set[tuple[str, type[Warning], str, int]] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, DeprecationWarning) and filename.startswith(OWN_FILES):
            return
        warning = (str(message), category, filename, lineno)
        if warning not in shown:
            shown.add(warning)
            show_before(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = show_before
