"""How tests run the command and ordinary scripts: as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

from squall.properties.support.paths import ROOT

TIMEOUT_S = 240


def squall(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run ``squall`` with these words from the root of the repository."""
    return python("-m", "squall", *words, **env)


def stock(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script on stock PyTorch, with real processes."""
    return python(*words, **env)


def python(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these words from the root of the repository."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
