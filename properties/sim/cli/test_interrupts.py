"""Ctrl-C, as a terminal sends it: what was found stays, and no traceback appears."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from squall.properties.support.commands import ROOT
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import dump_scenario, load_scenario
from squall.sim.scenarios.store import Place, Store
from squall.sim.search.again import again
from squall.sim.search.draw import draw

PATIENCE_S = 120.0
MUTANT = "release-only-here"
#: the command, with a bug planted in it and in the processes that share its work; it says in a
#: file when the shrinker has tried so many runs
COMMAND = """
import os, sys
from squall.sim.search.mutants.planted import MUTANTS
from squall.sim.cli import shrink
from squall.sim.cli.entry import main

show = shrink._Display.show

def told(self, shrinker):
    if shrinker.tried == 4:
        open(os.environ["TRIED"], "w").close()
    show(self, shrinker)

shrink._Display.show = told
if os.environ["PLANT"]:
    planted = MUTANTS[os.environ["PLANT"]].apply()
    planted.__enter__()
main()
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


def interrupted(folder: Path, *words: str, when: Callable[[], object], plant: str = "") -> Ended:
    """Run ``squall`` with a store in ``folder``, and interrupt it, and what it has started, as
    soon as ``when()`` is true."""
    out, err = folder / "out", folder / "err"
    with out.open("w") as to_out, err.open("w") as to_err:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words],
            cwd=ROOT,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "SQUALL_STORE": str(folder / "store"),
                "TRIED": str(folder / "tried"),
                "PLANT": plant,
            },
            stdin=subprocess.DEVNULL,
            stdout=to_out,
            stderr=to_err,
            start_new_session=True,
        )
        until = time.monotonic() + PATIENCE_S
        while not when() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        assert process.poll() is None, err.read_text()
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(PATIENCE_S)
    with pytest.raises(ProcessLookupError):  # nothing that it has started is left
        os.killpg(process.pid, 0)
    return Ended(code, out.read_text(), err.read_text())


def printed(folder: Path) -> set[str]:
    """The files that a campaign has said it keeps."""
    if not (folder / "err").exists():
        return set()
    return set(re.findall(r"^  kept: (.*)\n", (folder / "err").read_text(), re.MULTILINE))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_campaign_keeps_what_it_found(tmp_path: Path, jobs: str) -> None:
    words = ("fuzz", "--jobs", jobs, "--seeds", "0:1000000", "--json")
    ended = interrupted(tmp_path, *words, when=lambda: printed(tmp_path), plant=MUTANT)
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert ended.report["outcome"] == "interrupted"
    assert ended.report["scenarios"] > 0
    files = printed(tmp_path)
    assert files <= {failure["file"] for failure in ended.report["failures"]}
    assert files <= {kept.file for kept in Store(Place(tmp_path / "store")).failures()}
    for file in files:
        assert load_scenario(Path(file)).expected.outcome == "failed"


def failing(folder: Path) -> Path:
    """A scenario that fails with the bug, and is large."""
    for seed in range(100):
        saved = draw(seed)
        saved = replace(saved, expected=Expected(mutant=MUTANT))
        if (saved.operations or 0) >= 8 and again(saved, seconds=20.0).violations:
            file = folder / "large.json"
            file.write_text(dump_scenario(saved))
            return file
    raise AssertionError("no large scenario fails")


def test_a_shrinker_keeps_the_best_so_far(tmp_path: Path) -> None:
    """It is interrupted while it tries smaller ones: what it has by then fails as the first did."""
    large, small = failing(tmp_path), tmp_path / "small.json"
    tried = tmp_path / "tried"
    ended = interrupted(
        tmp_path, "shrink", str(large), "-o", str(small), "--json", when=tried.exists
    )
    assert ended.code == 130
    assert "Traceback" not in ended.err
    report = ended.report
    assert report["outcome"] == "interrupted"
    assert report["tried"] >= 4
    saved = load_scenario(small)
    found = {(each.property, each.what) for each in again(saved, seconds=20.0).violations}
    assert (report["property"], report["what"]) in found
    assert saved.expected.mutant == MUTANT


@pytest.mark.parametrize("after_s", [0.0, 0.3, 1.0])
def test_an_interrupt_while_the_command_starts(tmp_path: Path, after_s: float) -> None:
    """Python itself takes a moment, which no program can do anything about: from then on."""
    began = tmp_path / "began"
    start = f"open({str(began)!r}, 'w').close(); from squall.sim.cli.entry import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", f"import signal; {start}", "fuzz", "--seeds", "0:1000000", "--json"],
        cwd=ROOT,
        env={**os.environ, "SQUALL_STORE": str(tmp_path / "store")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        while not began.exists():
            time.sleep(0.01)
        time.sleep(0.1 + after_s)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    assert process.returncode == 130
    assert json.loads(out)["outcome"] == "interrupted"
