"""Code of a module for ranks: as it stands in its file, or with its assertions rewritten by pytest."""

from __future__ import annotations

import ast
import functools
import os
from importlib.util import find_spec
from types import CodeType
from typing import Any

from squall.sim.scripts.rounds import count

#: in the globals of a module whose assertions pytest has rewritten
REWRITTEN = "@pytest_ar"


def source_code(file: str) -> CodeType:
    """What the file says. Raises OSError or SyntaxError."""
    return _compiled(file, _stamp(file), False)


def rewritten_code(file: str) -> CodeType:
    """The same with assertions that tell both sides, where there is pytest. Raises OSError or
    SyntaxError."""
    return _compiled(file, _stamp(file), find_spec("_pytest") is not None)


def _stamp(file: str) -> tuple[int, int]:
    status = os.stat(file)
    return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=256)
def _compiled(file: str, stamp: tuple[int, int], rewritten: bool) -> CodeType:
    """Once for all ranks and runs, as long as the file is the same."""
    with open(file, "rb") as opened:
        source = opened.read()
    tree = ast.parse(source, file)
    if rewritten:
        # Pytest has no public name for it; its own importer calls it so.
        from _pytest.assertion import rewrite

        rewrite_asserts: Any = rewrite.rewrite_asserts
        rewrite_asserts(tree, source, file)
    count(tree)
    return compile(tree, file, "exec", dont_inherit=True)
