"""Wherever pytest is started, and however a file is named: its tests are found once, by one name."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from squall.properties.support.paths import PROPERTIES, ROOT

#: a small file of tests, and one test in it
FILE = "sim/world/test_rules.py"
TEST = "test_a_delay_adds_to_the_latency"


def collected(folder: str, *args: str) -> list[str]:
    """The names of the tests that pytest finds."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *args],
        cwd=ROOT / folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize(
    ("folder", "arg"),
    [
        (".", f"properties/{FILE}"),
        (".", f"{PROPERTIES / FILE}"),
        ("properties", FILE),
        ("properties/sim/world", "test_rules.py"),
    ],
)
def test_a_file_is_found_under_its_one_name(folder: str, arg: str) -> None:
    expected = collected(".", f"squall/properties/{FILE}")
    assert len(expected) > 1
    assert collected(folder, arg) == expected


def test_so_is_a_test_in_it() -> None:
    name = f"properties/{FILE}::{TEST}"
    assert collected(".", name) == [f"squall/{name}"]


def test_so_is_a_folder_and_options_stay_as_they_are() -> None:
    names = collected("properties/sim", "world", "-k", "test_rules")
    assert names and all(name.startswith(f"squall/properties/{FILE}::") for name in names)
