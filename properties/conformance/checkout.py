"""Tests of a checkout of PyTorch (``test/distributed/``) that start a process a rank, as suites, one a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from squall.properties.conformance.tests import Started, Test, TestClass
from squall.sim.cli.bad_input import BadInput

#: seconds of real time in which the files have to be imported, each
IMPORT_S = 60.0


def collect_checkout(where: Path, suites: Iterable[str] = (), pattern: str = "") -> list[Test]:
    """The tests of a file, or of all files ``test_*.py`` of a folder, whose id contains ``pattern``, whatever
    its case; of ``suites``, which are files as the folder has them, without ``.py``, if any is named.

    A file that cannot be imported has one test, which is skipped and says why. Raises :class:`BadInput`.
    """
    where = where.resolve()
    if not where.exists():
        problem = "there is no such folder or file, expected a part of test/distributed/ of PyTorch"
        raise BadInput("--tests", str(where), problem)
    root = where if where.is_dir() else where.parent
    files = sorted(where.rglob("test_*.py")) if where.is_dir() else [where]
    named = {file.relative_to(root).with_suffix("").as_posix(): file for file in files}
    if not named:
        problem = "no file test_*.py is in it, expected a part of test/distributed/ of PyTorch"
        raise BadInput("--tests", str(where), problem)
    for suite in suites:
        if suite not in named:
            problem = f"there is no suite {suite!r}, expected one of {', '.join(named)}"
            raise BadInput("SUITE", suite, problem)
    chosen = list(dict.fromkeys(suites)) or list(named)
    told = _listed([str(named[name]) for name in chosen])
    tests = [test for name in chosen for test in _tests(name, str(named[name]), told)]
    sought = pattern.lower()
    found = [test for test in tests if sought in test.id.lower()]
    if not found:
        problem = f"no test of {where} has {pattern!r} in its name and starts a process a rank"
        raise BadInput("-k" if pattern else "--tests", pattern or str(where), problem)
    return found


def _tests(suite: str, file: str, told: dict[str, dict[str, object]]) -> list[Test]:
    answer = told[file]
    if "error" in answer:
        owner = TestClass(suite, "(file)", ("", ""), started=Started(file, 1))
        return [Test(suite, owner, "import", skip=f"it cannot be imported: {answer['error']}")]
    listed = answer["tests"]
    assert isinstance(listed, list)
    return [
        Test(
            suite,
            TestClass(
                Path(file).stem,
                each["class"],
                ("", ""),
                started=Started(
                    file,
                    each["ranks"],
                    each.get("continuous", False),
                    tuple((name, value) for name, value in each.get("environ", ())),
                ),
            ),
            each["method"],
            skip=each.get("skip", ""),
        )
        for each in listed
    ]


def _listed(files: list[str]) -> dict[str, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "squall.properties.conformance.listing", *files],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=IMPORT_S * (len(files) + 1),
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        problem = f"a file ended the process that imported it: {last[0]}"
        raise BadInput("--tests", files[0], problem)
    answer: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return answer
