"""One import name: what ``squall`` costs to import, and that no module is ever there twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import squall
from squall.properties.support.paths import ROOT


def in_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run this in a new interpreter, in the root of the repository and with it in its path."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_package_is_small() -> None:
    assert all(hasattr(squall, name) for name in squall.__all__)
    code = (
        "import sys; before = set(sys.modules); import squall, json; "
        "print(json.dumps(sorted(name.partition('.')[0] for name in set(sys.modules) - before)))"
    )
    loaded = set(json.loads(in_python(code).stdout))
    assert "squall" in loaded
    assert not loaded & {"torch", "numpy", "simpy", "greenlet", "pydantic", "typer"}


@pytest.mark.parametrize("folder", ["real", "model", "sim", "properties"])
def test_a_folder_of_the_repository_is_no_package_of_its_own(folder: str) -> None:
    """Imported by that name it would be a second copy of each module, with classes of its own."""
    done = in_python(f"import {folder}")
    assert done.returncode == 1
    assert f"ImportError: import squall.{folder}: " in done.stderr
    assert in_python(f"import squall.{folder}").returncode == 0


def test_databases_are_imported_by_campaigns_alone() -> None:
    code = (
        "import sys; from squall.sim.cli.commands import *; from squall.sim.cli import main\n"
        "from squall.sim.cli.commands import campaign; import squall.sim.cli.entry\n"
        "print(sorted({'sqlite3', 'psycopg', 'pyarrow', 'torch'} & set(sys.modules)))"
    )
    done = in_python(code)
    assert done.stdout == "[]\n", done.stderr
