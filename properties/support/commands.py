"""How tests run the command and ordinary scripts: as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from squall.properties.support.paths import ROOT

TIMEOUT_S = 240


def squall(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run ``squall`` with these words from the root of the repository."""
    return python("-m", "squall", *words, **env)


def stock(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script on stock PyTorch, with real processes."""
    return _run(words, whole_lines(), env)


def python(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these words from the root of the repository."""
    return _run(words, os.environ, env)


def whole_lines() -> dict[str, str]:
    """The environment of a script whose processes print to one pipe: ``print(..., flush=True)`` is
    one write. With ``PYTHONUNBUFFERED`` each word is, and lines of two processes may mix."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def _run(
    words: Sequence[str], ours: Mapping[str, str], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**ours, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
