"""Ctrl-C, as a terminal sends it: what was found stays, and no traceback appears."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from squall.properties.support.paths import ROOT
from squall.properties.support.waiting import PATIENCE_S, wait_for
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import dump_scenario, load_scenario
from squall.sim.scenarios.store import Place, Store
from squall.sim.search.again import again
from squall.sim.search.draw import draw

MUTANT = "release-only-here"
#: the command, with a bug planted in it and in the processes that share its work; it makes a file
#: when the shrinker has tried so many runs
COMMAND = """
import os
from pathlib import Path
from squall.sim.search.mutants.families import MUTANTS
from squall.sim.search.shrink import shrinker
from squall.sim.cli.entry import main

class Telling(shrinker.Shrinker):
    def __init__(self, *args, on_progress, **options):
        def tell(self):
            if self.tried == 4:
                Path(os.environ["TRIED"]).touch()
            on_progress(self)
        super().__init__(*args, on_progress=tell, **options)

shrinker.Shrinker = Telling
if os.environ["PLANT"]:
    planted = MUTANTS[os.environ["PLANT"]].apply()
    planted.__enter__()
main()
"""
#: the command, which is interrupted when it begins to import a module
STARTING = """
import os, signal, sys

class Interrupts:
    def find_spec(name, path=None, target=None):
        if name == os.environ["WHERE"]:
            sys.meta_path.remove(Interrupts)
            os.kill(os.getpid(), signal.SIGINT)

from squall.sim.cli.entry import main
sys.meta_path.insert(0, Interrupts)
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
        wait_for(lambda: when() or process.poll() is not None, "what is interrupted")
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
    assert ended.report["corpus"] + ended.report["scenarios"] > 0  # the corpus is played first
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


@pytest.mark.parametrize(
    "where",
    [
        "squall.sim.cli.main",  # before anything is imported
        "torch.nn",  # in the middle of torch, out of which no exception could come
        "squall.sim.search.campaign",  # when the command has read its options
    ],
)
def test_an_interrupt_while_the_command_starts(tmp_path: Path, where: str) -> None:
    """Python itself takes a moment, which no program can do anything about: from then on."""
    done = subprocess.run(
        [sys.executable, "-c", STARTING, "fuzz", "--seeds", "0:1000000", "--json"],
        cwd=ROOT,
        env={**os.environ, "SQUALL_STORE": str(tmp_path / "store"), "WHERE": where},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 130
    assert json.loads(done.stdout)["outcome"] == "interrupted"
