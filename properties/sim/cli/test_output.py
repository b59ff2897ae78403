"""Standard output that nobody reads, or that cannot be written."""

from __future__ import annotations

import subprocess
import sys

import pytest

from squall.properties.support.commands import squall
from squall.properties.support.paths import ROOT

SCRIPT = "examples/pipeline.py"


def into(shell: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash, in which ``squall`` is the command."""
    command = f'squall() {{ {sys.executable} -W ignore -m squall "$@"; }}; {shell}'
    return subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )


def test_a_reader_who_leaves_gets_its_line_and_nobody_else_any(engine: str) -> None:
    said = into(f"squall run {SCRIPT} --engine {engine} | head -1; echo ${{PIPESTATUS[0]}}")
    lines = said.stdout.splitlines()
    assert lines[0].startswith("step 1 ") and lines[1:] == ["141"]
    assert "Error" not in said.stderr and "Leaking" not in said.stderr


@pytest.mark.parametrize("words", [f"run {SCRIPT}", f"run {SCRIPT} --json", "properties"])
def test_a_full_disk_is_told_in_one_line(words: str) -> None:
    said = into(f"squall {words} > /dev/full")
    assert said.returncode == 2
    last = said.stderr.splitlines()[-1]
    assert last == "squall: standard output: cannot write: No space left on device"
    assert "Traceback" not in said.stderr


def test_an_exception_of_a_script_is_printed_once(tmp_path: object, engine: str) -> None:
    script = f"{tmp_path}/fails.py"
    with open(script, "w", encoding="utf-8") as file:
        file.write("def f():\n    raise ValueError('not today')\n\nf()\n")
    done = squall("run", script, "--engine", engine)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1 and "/sim/" not in done.stderr
    assert "Traceback" not in done.stdout
    assert "raised ValueError: not today (fails.py, line 2)" in done.stdout
