"""The tiers of the suite: a sample that the commit draws, the rest, and all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from squall.properties.support.costs import updated
from squall.properties.support.paths import ROOT
from squall.properties.support.tiers import affordable, sample

SUITE = """
import pytest
from hypothesis import given, settings, strategies

@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", range(20))
def test_many(n): pass

@pytest.mark.sampled(1, of="a cluster")
def test_one(): pass

@pytest.mark.sampled(1, of="a cluster")
@pytest.mark.parametrize("n", range(3))
def test_other(n): pass

@pytest.mark.deep("it takes an hour")
def test_long(): pass

def test_short(): pass

@settings(derandomize=False)
@given(strategies.integers())
def test_drawn(n):
    with open("drawn", "a") as file:
        print(n, file=file)
"""
ALL = 20 + 1 + 3 + 3


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "test_suite.py").write_text(SUITE, encoding="utf-8")
    return tmp_path


def run(suite: Path, *words: str) -> str:
    plugin = ["-p", "squall.properties.support.tiers", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *plugin, *words],
        cwd=suite,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ran(suite: Path, *words: str) -> set[str]:
    return {
        line.split(" PASSED")[0] for line in run(suite, *words).splitlines() if " PASSED" in line
    }


def names(tests: set[str]) -> list[str]:
    return sorted(test.partition("::")[2].partition("[")[0] for test in tests)


def test_quick_and_deep_are_the_whole(suite: Path) -> None:
    quick, deep = ran(suite, "--sample", "one"), ran(suite, "--sample", "one", "--tier", "deep")
    cluster = [name for name in names(quick) if name in ("test_one", "test_other")]
    assert len(cluster) == 1
    assert names(quick) == sorted(["test_drawn", *["test_many"] * 3, "test_short", *cluster])
    assert {name.partition("::")[2] for name in quick & deep} == {"test_drawn"}
    assert len(quick | deep) == ALL


def test_a_commit_says_which(suite: Path) -> None:
    first = ran(suite, "--sample", "one")
    drawn = (suite / "drawn").read_text(encoding="utf-8")
    (suite / "drawn").unlink()
    assert ran(suite, "--sample", "one") == first
    assert (suite / "drawn").read_text(encoding="utf-8") == drawn
    assert ran(suite, "--sample", "two") != first
    assert (suite / "drawn").read_text(encoding="utf-8") != 2 * drawn


def test_a_test_that_is_named_runs_with_all_its_cases(suite: Path) -> None:
    assert len(ran(suite, "test_suite.py::test_many", "test_suite.py::test_long")) == 21
    assert len(ran(suite, "test_suite.py::test_other[2]")) == 1
    assert len(ran(suite, "--tier", "quick", "test_suite.py::test_many")) == 3


def test_a_sample_is_as_large_as_it_may_be_and_every_case_has_its_commit() -> None:
    cases = [str(n) for n in range(10)]
    assert len(sample(cases, 3, "a")) == 3
    assert sorted(sample(cases, 20, "a")) == cases
    assert {case for n in range(50) for case in sample(cases, 1, f"commit {n}")} == {*cases}


def test_of_what_takes_long_each_folder_has_one_and_all_of_them_keep_to_a_budget() -> None:
    folders = "model/checks", "sim/cli", "sim/stock"
    costs = {
        f"squall/properties/{each}/test_it.py::test_{n}": 4.0 for each in folders for n in range(20)
    }
    for commit in ("one", "two"):
        taken = affordable(costs, 40.0, commit)
        assert len(taken) == 10
        assert {name.split("/")[2] + "/" + name.split("/")[3] for name in taken[:3]} == {*folders}
    drawn = {name for n in range(60) for name in affordable(costs, 40.0, f"commit {n}")}
    assert drawn == {*costs}


def test_what_tests_take_is_known_of_those_that_are_there_and_take_long() -> None:
    this = f"squall/properties/support/test_tiers.py::{test_a_commit_says_which.__name__}"
    gone = "squall/properties/support/test_tiers.py::test_that_is_gone"
    assert updated({gone: 3.0, this: 3.0}, {}) == {this: 3.0}
    assert updated({this: 3.0}, {this: 0.1, gone: 9.0}) == {}
