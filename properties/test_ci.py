"""``.ci/run``: what it runs, and that no test is skipped since a program is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from squall.properties.support.paths import ROOT

#: programs that the script looks for, besides those of any system
NEEDED = ("chromium", "chromedriver", "c++", "pg_ctlcluster")
#: of any system
USUAL = ("bash", "dirname", "env")


def program(folder: Path, name: str, says: str = "exit 0") -> None:
    """A program that a script finds in ``folder``."""
    path = folder / name
    path.write_text(f"#!/usr/bin/env bash\n{says}\n", encoding="utf-8")
    path.chmod(0o755)


def run(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """The script, where no program is found but those in ``folder``."""
    for name in USUAL:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    program(folder, "make", 'echo "$@ ${SQUALL_WITHOUT_NATIVE-no}"')
    return subprocess.run(
        [ROOT / ".ci" / "run"],
        env={"PATH": str(folder), **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("env", [{}, {"SQUALL_WITHOUT_NATIVE": "1"}])
def test_it_runs_everything(tmp_path: Path, env: dict[str, str]) -> None:
    for name in NEEDED:
        program(tmp_path, name)
    done = run(tmp_path, **env)
    assert done.returncode == 0, done.stderr
    ran = [line for line in done.stdout.splitlines() if not line.startswith("==")]
    targets = {"lint", "types", "layers", "docs", "test-notebooks", "test", "test-browser"}
    assert targets <= set(" ".join(ran).split())
    assert all(line.endswith(" no") for line in ran)


@pytest.mark.parametrize("missing", NEEDED)
def test_what_is_missing_is_installed(tmp_path: Path, missing: str) -> None:
    for name in {*NEEDED} - {missing}:
        program(tmp_path, name)
    program(tmp_path, "id", "echo 0")
    program(tmp_path, "apt-get", f'echo "$@" >>{tmp_path}/installed')
    assert run(tmp_path).returncode == 0
    installed = (tmp_path / "installed").read_text(encoding="utf-8").split()
    assert {"chromium", "chromium-driver", "g++", "postgresql"} <= {*installed}


@pytest.mark.parametrize("missing", NEEDED)
def test_or_it_fails_before_anything_is_run(tmp_path: Path, missing: str) -> None:
    for name in {*NEEDED} - {missing}:
        program(tmp_path, name)
    program(tmp_path, "id", "echo 1000")
    done = run(tmp_path)
    assert done.returncode == 1
    assert "apt-get install chromium chromium-driver g++ postgresql" in done.stderr
    assert done.stdout == ""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("without", "code"), [("", 1), ("1", 0)])
def test_the_compiled_engine_is_left_out_only_if_somebody_says_so(
    tmp_path: Path, without: str, code: int
) -> None:
    test = "squall/properties/real/native/test_quiet.py"
    env = {"SQUALL_WITHOUT_NATIVE": without, "SQUALL_CACHE": str(tmp_path), "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "CXX"} | env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stdout
    assert "apt-get install g++" in done.stdout
    assert ("SQUALL_WITHOUT_NATIVE=1 skips" in done.stdout) == bool(code)
