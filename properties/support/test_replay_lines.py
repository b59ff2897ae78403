"""A failing test tells how to see its last run again."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from squall.properties.support.paths import ROOT
from squall.properties.support.playing import write
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import load_scenario
from squall.sim.search.draw import draw

TEST = """
    from squall.sim.scenarios.settings import campaign_settings
    from squall.sim.scenarios.play import play
    from squall.sim.search.draw import draw

    def test_that_fails(replayable):
        with campaign_settings():
            play(replayable(draw(3)))
        assert False, "on purpose"

    def test_that_fails_without_a_run():
        assert False, "on purpose"

    def test_that_holds(replayable):
        with campaign_settings():
            play(replayable(draw(3)))
"""


def test_a_failing_test_prints_the_line(tmp_path: Path) -> None:
    test = write(tmp_path, TEST, "test_failing.py")
    store = tmp_path / "store"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "squall.properties.support.replay_lines",
            str(test),
        ],
        cwd=ROOT,
        env={**os.environ, "SQUALL_STORE": str(store), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "2 failed, 1 passed" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "squall replay" in line]
    assert line.startswith("its last run, again: squall replay ")
    saved = load_scenario(Path(line.split()[-1]))
    assert replace(saved, expected=Expected(), note="") == draw(3)
    assert "test_that_fails" in saved.note
