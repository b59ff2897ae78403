"""A copy of the package in a folder, to add something to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from squall.properties.support.paths import ROOT


def copied_package(folder: Path) -> Path:
    """A copy of ``squall`` without its tests, in ``folder``; its own folder."""
    package = folder / "squall"
    package.mkdir()
    for file in (ROOT / "squall").glob("*.py"):
        shutil.copy(file, package)
    for part in ("real", "model", "sim"):
        shutil.copytree(ROOT / part, package / part, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def run_copy(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these words, the copy in ``folder`` being what it imports."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
