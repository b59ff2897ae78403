"""A test that failed, by its id: run again, made small, and written as a script for stock PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.properties.support.commands import python, squall

TEST = """
import pytest
import torch.distributed.rpc as rpc

import squall


@pytest.mark.parametrize("factor", [2])
@squall.test(workers=2, seeds=1, join="worker{rank}")
def test_a_call(rank, factor):
    assert rpc.rpc_sync("worker1", max, args=(1, 2)) == factor + 1


@squall.test(workers=2, seeds=1)
def test_objects(rank, tmp_path):
    assert rank == 0
"""


def test_a_test_that_failed_becomes_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    file = tmp_path / "test_it.py"
    file.write_text(TEST, encoding="utf-8")
    assert "2 failed" in python("-m", "pytest", "-q", str(file)).stdout
    script = tmp_path / "out.py"
    done = squall("export", f"{file}::test_a_call[2]", "-o", str(script))
    assert done.returncode == 0, done.stderr
    assert "squall.sim" not in script.read_text(encoding="utf-8") and "b85" not in script.read_text(
        encoding="utf-8"
    )
    for words in (("-m", "squall", "run", str(script)), (str(script),)):
        run = python(*words)
        assert run.returncode == 1 and "AssertionError" in run.stderr + run.stdout, run.stderr
    assert squall("replay", f"{file}::test_a_call").returncode == 1
    refused = squall("export", f"{file}::test_objects")
    assert refused.returncode == 2 and "tmp_path is a PosixPath" in refused.stderr


def test_a_script_or_a_test_without_a_failure_says_what_looks_for_one(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('fine')\n", encoding="utf-8")
    for what, command in ((f"{script}::test_it", "pytest"), (str(script), "squall fuzz")):
        done = squall("shrink", what, SQUALL_STORE=str(tmp_path / "none"))
        assert done.returncode == 2 and f"{command} {what} looks for one" in done.stderr
