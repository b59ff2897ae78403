"""Hypothesis around squall: while a run takes place within an example, its ranks are outside of it.

A rank imports its modules anew, and with them tests that Hypothesis gives data to: it would take those
for tests within the one that is running.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def outside() -> Iterator[None]:
    """No example of Hypothesis's is running in this block."""
    context = _context()
    if context is None:
        yield
        return
    with context.with_value(None):
        yield


def inside() -> bool:
    """Whether this is code of an example of Hypothesis's."""
    context = _context()
    return context is not None and context.value is not None


def _context() -> Any:
    """What Hypothesis knows of the running example; it has no public name for it."""
    control = sys.modules.get("hypothesis.control")
    return None if control is None else getattr(control, "_current_build_context", None)
