"""What reaches the terminal while a script runs."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from squall.real.own_files import OWN_FILES


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
