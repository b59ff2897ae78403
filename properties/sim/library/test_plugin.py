"""The plugin for pytest, in runs of pytest that have nothing to do with this one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 240

TESTS = """
import time
import unittest

import pytest
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from hypothesis import given, settings, strategies as st

import squall
import model  # of the user

order = []

def note(rank):
    order.append(rank)
    return list(order)

@squall.test(workers=3, seeds=20, faults="rough", join="worker{rank}")
def test_a_step(rank):
    with dist_autograd.context() as context_id:
        x = torch.ones(2, requires_grad=True)
        y = rpc.rpc_sync("worker1", model.double, args=(x,))
        dist_autograd.backward(context_id, [y.sum()])
        assert dist_autograd.get_gradients(context_id)[x].tolist() == [2, 2]

@squall.test(workers=3, seeds=50, join="worker{rank}")
def test_a_race(rank):
    if rank:
        rpc.rpc_sync("worker0", note, args=(rank,))
    else:
        time.sleep(1)
        print("called by", order)
        assert order == [1, 2]  # not in every order

@pytest.mark.parametrize("factor", [2, 3])
@squall.test(workers=2, seeds=3)
def test_fixtures(rank, tmp_path, factor):
    assert tmp_path.exists() and factor in (2, 3)

class TestPlain:
    @squall.test(workers=2, seeds=3)
    def test_an_instance(self, rank):
        assert not hasattr(self, "rank")
        self.rank = rank

@squall.test(workers=2, join="worker{rank}")
@given(n=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_data(rank, n):
    assert rpc.rpc_sync("worker1", model.double, args=(n,)) == 2 * n
    assert n < 100

@given(n=st.integers(0, 1000))
@settings(max_examples=5, deadline=None)
@squall.test(workers=2, seeds=2)
def test_data_from_outside(rank, n):
    assert n >= 0

def test_by_hand(squall_cluster):
    def step(rank):
        if rank == 0:
            with squall_cluster.hold(kind="PYTHON_CALL", dst=1) as held:
                calls = [rpc.rpc_async("worker1", note, args=(word,)) for word in "ab"]
                first, second = held.wait(2)
                held.deliver(second)
                calls[1].wait()
                held.deliver(first)
                return calls[0].wait()
    assert squall_cluster.run(step, workers=2).results[0] == ["b", "a"]

class TestUnit(unittest.TestCase):
    @squall.test(workers=2, seeds=3)
    def test_unequal(self, rank):
        self.assertEqual(rank, 0)
"""

OF_TORCH = """
import torch
import torch.distributed.rpc as rpc
from torch.testing._internal.common_utils import TestCase

import squall

class TestOfTorch(TestCase):
    def setUp(self):
        super().setUp()
        self.expected = torch.full((2,), 3.0)

    @squall.test(workers=2, seeds=3, join="worker{rank}")
    def test_a_sum(self, rank):
        value = rpc.rpc_sync("worker0", torch.add, args=(torch.ones(2), 2))
        self.assertEqual(value, self.expected)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody's tests, with modules named as parts of squall are."""
    made = tmp_path_factory.mktemp("somebodys")
    (made / "test_theirs.py").write_text(TESTS, encoding="utf-8")
    (made / "test_of_torch.py").write_text(OF_TORCH, encoding="utf-8")
    (made / "model.py").write_text("def double(x):\n    return x * 2\n", encoding="utf-8")
    (made / "real.py").write_text("", encoding="utf-8")
    (made / "sim").mkdir()
    (made / "sim" / "__init__.py").write_text("", encoding="utf-8")
    return made


def run_pytest(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:randomly", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "SQUALL_STORE": ".squall"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def first_run(folder: Path) -> str:
    code, said = run_pytest(folder, "-v", "test_theirs.py")
    assert code == 1, said
    return said


def part(said: str, name: str) -> str:
    """What is told of the failure of a test."""
    found = re.search(
        rf"^_+ {re.escape(name)} _+$(.*?)^(?:_+ |=+ )", said, re.MULTILINE | re.DOTALL
    )
    assert found is not None, said
    return found[1]


def test_tests_pass_with_the_number_of_their_runs(first_run: str) -> None:
    for name, runs in {
        "test_a_step": 20,
        "test_fixtures[2]": 3,
        "TestPlain::test_an_instance": 3,
    }.items():
        assert f"test_theirs.py::{name} PASSED ({runs} runs)" in first_run
    assert "test_theirs.py::test_by_hand PASSED" in first_run
    assert "test_theirs.py::test_data_from_outside PASSED" in first_run
    assert "3 failed, 6 passed" in first_run


def test_a_failure_tells_rank_line_seed_and_commands(first_run: str, folder: Path) -> None:
    told = part(first_run, "test_a_race")
    line = TESTS[: TESTS.index("assert order ==")].count("\n") + 1
    assert told.strip().startswith("rank 0: AssertionError: assert [2, 1] == [1, 2]")
    assert f"test_theirs.py:{line}" in told
    assert re.search(r"^seed \d+, 3 workers, engine port$", told, re.MULTILINE)
    assert "shrunk in" in told and "order    fifo" in told
    assert "At index 0 diff: 2 != 1" in told
    assert re.search(r"^-+ Captured stdout call -+\ncalled by \[2, 1\]$", told, re.MULTILINE)
    file = re.search(r"^replay: +squall replay (\S+)$", told, re.MULTILINE)
    assert file is not None and (folder / file[1]).exists()
    assert f"timeline:  squall timeline {file[1]}" in told
    assert "sim/library" not in told
    assert "AssertionError: 1 != 0" in part(first_run, "TestUnit.test_unequal")


def test_the_command_that_a_failure_names_shows_it_again(first_run: str, folder: Path) -> None:
    file = re.search(r"squall replay (\S+)", part(first_run, "test_a_race"))
    assert file is not None
    done = subprocess.run(
        [sys.executable, "-m", "squall", "replay", file[1]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "AssertionError" in done.stdout
    assert "in <module>" not in done.stdout + done.stderr  # of the script that squall has written


def test_data_of_hypothesis_become_small(first_run: str) -> None:
    told = part(first_run, "test_data")
    assert "assert 100 < 100" in told and "n=100" in told


def test_a_failure_is_tried_first_the_next_time(first_run: str, folder: Path) -> None:
    code, said = run_pytest(folder, "test_theirs.py::test_a_race", "--squall-seeds", "1")
    assert code == 1
    assert "passed before it" not in part(said, "test_a_race")


@pytest.mark.deep("it runs pytest four times")
def test_one_seed_or_one_file_can_be_played_alone(first_run: str, folder: Path) -> None:
    words = ("-v", "test_theirs.py::test_a_race", "test_theirs.py::test_a_step", "--squall-replay")
    code, said = run_pytest(folder, *words)
    assert code == 1 and "shrunk" not in said and "rank 0: AssertionError" in said
    assert "test_a_step SKIPPED (it has not failed the last time)" in said
    code, said = run_pytest(folder, "-v", "test_theirs.py::test_a_step", "--squall-replay", "3")
    assert code == 0 and "PASSED (holds: 3)" in said
    code, said = run_pytest(folder, "--squall-replay", "test_theirs.py")
    assert code == 4 and "write --squall-replay=last" in said
    code, said = run_pytest(folder, "test_theirs.py", "--squall-replay", "nofile.json")
    assert code == 4 and "there is no file 'nofile.json', expected a scenario file" in said


@pytest.mark.usefixtures("compiled_engine")
def test_the_engine_can_be_chosen_for_all(folder: Path) -> None:
    test = "test_of_torch.py"
    code, said = run_pytest(folder, "-v", test, "--squall-engine", "torch", "--squall-seeds", "1")
    assert code == 0 and said.count("PASSED (1 run)") == 1, said


def test_tests_run_in_several_processes(folder: Path) -> None:
    code, said = run_pytest(folder, "-n", "2", "test_theirs.py", "-k", "a_step or fixtures")
    assert code == 0 and "3 passed" in said, said


def test_the_same_methods_run_under_unittest(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "test_of_torch", "test_theirs.TestUnit"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "Ran 2 tests" in done.stderr and "failures=1" in done.stderr, done.stderr
    assert "AssertionError: 1 != 0" in done.stderr


def test_a_wrong_decorator_says_so_at_once() -> None:
    import squall

    with pytest.raises(TypeError, match="no parameter for its rank"):
        squall.test(lambda: None)
    with pytest.raises(ValueError, match="expected 'port' or 'torch'"):
        squall.test(engine="other")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="at least 1"):
        squall.test(seeds=0)


def test_the_plugin_imports_no_torch() -> None:
    code = "import sys, squall, squall.sim.library.plugin; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"
