"""What each folder of tests took."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from squall.properties.support.paths import ROOT

BUSY = """
import pytest, subprocess, sys

@pytest.mark.parametrize("n", range(50))
def test_it(n):
    pass

SPIN = "import time\\nwhile time.process_time() < 0.5: pass\\n"

def test_a_child():
    subprocess.run([sys.executable, "-c", SPIN])

def test_a_child_that_lives_on():
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    global child
    child = subprocess.Popen([sys.executable, "-c", SPIN + "print(flush=True); input()"], **pipes)
    child.stdout.readline()
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_table_says_it(tmp_path: Path, processes: str) -> None:
    for name in ("sim/cli", "real/rpc"):
        folder = tmp_path / "squall" / "properties" / name
        folder.mkdir(parents=True)
        (folder / f"test_{folder.name}.py").write_text(BUSY, encoding="utf-8")
    words = ["-q", "-n", processes, "-p", "squall.properties.support.costs"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("folder"))
    rows = {line.split()[0]: line.split()[1:] for line in lines[at + 1 : at + 4]}
    assert list(rows) == ["real/rpc", "sim/cli", "all"]
    assert [int(row[0]) for row in rows.values()] == [52, 52, 104]
    assert all(float(row[2]) >= 1 and int(row[3]) > 5 for row in rows.values())
