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

from squall.properties.support.paths import ROOT
from squall.properties.support.waiting import PATIENCE_S, wait_for
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import dump_scenario, load_scenario
from squall.sim.scenarios.store import Store, StorePlace
from squall.sim.search.draw import draw
from squall.sim.search.replay_with_mutant import again

MUTANT = "release-only-here"
#: the command, with a bug planted in it and in the processes that share its work; it makes a file
#: when the shrinker has tried so many runs
COMMAND = """
import os
from pathlib import Path
from squall.sim.search.mutants.registry import MUTANTS
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


def interrupted(
    folder: Path,
    *words: str,
    when: Callable[[], object],
    plant: str = "",
    command: str = COMMAND,
) -> Ended:
    """Run ``squall`` with a store in ``folder``, and interrupt it, and what it has started, as
    soon as ``when()`` is true."""
    out, err = folder / "out", folder / "err"
    with out.open("w") as to_out, err.open("w") as to_err:
        process = subprocess.Popen(
            [sys.executable, "-c", command, *words],
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
        assert process.poll() is None, err.read_text(encoding="utf-8")
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(PATIENCE_S)
    with pytest.raises(ProcessLookupError):  # nothing that it has started is left
        os.killpg(process.pid, 0)
    return Ended(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def printed(folder: Path) -> set[str]:
    """The files that a campaign has said it keeps."""
    if not (folder / "err").exists():
        return set()
    return set(
        re.findall(r"^  kept: (.*)\n", (folder / "err").read_text(encoding="utf-8"), re.MULTILINE)
    )


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
    assert files <= {kept.file for kept in Store(StorePlace(tmp_path / "store")).failures()}
    for file in files:
        assert load_scenario(Path(file)).expected.outcome == "failed"


def failing(folder: Path) -> Path:
    """A scenario that fails with the bug, and is large."""
    for seed in range(100):
        saved = draw(seed)
        saved = replace(saved, expected=Expected(mutant=MUTANT))
        if (saved.operations or 0) >= 8 and again(saved, seconds=20.0).violations:
            file = folder / "large.json"
            file.write_text(dump_scenario(saved), encoding="utf-8")
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


#: a user's function that catches every interrupt, in the place of one that programs call
CATCHING = """
import os
from pathlib import Path
from squall.sim.programs import host

perform = host.Host.perform

def catching(self, *args):
    while True:
        try:
            Path(os.environ["TRIED"]).touch()
            return perform(self, *args)
        except KeyboardInterrupt:
            Path(os.environ["TRIED"] + ".caught").touch()

host.Host.perform = catching
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("after", range(12))
def test_a_campaign_whose_functions_catch_interrupts_ends_at_the_first(
    tmp_path: Path, after: int
) -> None:
    """Interrupted after a different number of verdicts each time, so anywhere in a scenario."""
    ended = interrupted(
        tmp_path,
        *("fuzz", "--seeds", "0:1000000", "--json"),
        when=lambda: (tmp_path / "tried").exists() and _passes(after),
        command=CATCHING + COMMAND,
    )
    assert ended.code == 130
    assert ended.report["outcome"] == "interrupted"
    assert ended.report["failures"] == []  # what a caught interrupt makes of a run is no failure


def _passes(number: int) -> bool:
    """True after a moment that differs with ``number``: the test asserts nothing of it."""
    time.sleep(0.037 * number)
    return True


SCRIPT = """
import signal
from pathlib import Path
import torch.distributed.rpc as rpc

def obstinate():
    number = 0
    while True:
        try:
            Path("{started}").touch()
            while True:
                number += 1
        except BaseException:
            pass

rpc.init_rpc("only", rank=0, world_size=1)
rpc.rpc_sync("only", obstinate)
"""


def test_a_second_interrupt_ends_what_catches_the_first(tmp_path: Path) -> None:
    script, started = tmp_path / "script.py", tmp_path / "started"
    script.write_text(SCRIPT.format(started=started), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "squall", "run", str(script)],
        cwd=ROOT,
        env={
            **os.environ,
            "SQUALL_STORE": str(tmp_path / "store"),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: started.exists() or process.poll() is not None, "the function's loop")
    assert started.exists()
    process.send_signal(signal.SIGINT)
    wait_for(lambda: not _catches(process.pid, signal.SIGINT), "the first to be heard")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == -signal.SIGINT


def _catches(pid: int, which: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (which - 1) & 1)
