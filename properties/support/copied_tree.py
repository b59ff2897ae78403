"""A copy of squall in a temporary folder, to which a test adds a file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from squall.properties.support.paths import ROOT


def copied_tree(folder: Path) -> Path:
    """Copy what is installed of squall (no tests) into ``folder``; the package."""
    package = folder / "squall"
    package.mkdir()
    for file in (ROOT / "squall").glob("*.py"):
        shutil.copy(file, package)
    for room in ("real", "model", "sim"):
        shutil.copytree(ROOT / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def squall_of(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``python -m squall ...`` of that copy, to its end."""
    folder = package.parent
    return subprocess.run(
        [sys.executable, "-m", "squall", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
