"""Old failures, kept as scenario files: they run first, and never fail again.

A file whose ``expected`` names a planted bug shows that the bug is still noticed, by the same
property; without it everything holds. A file that expects outcome "failed" without one is a
failure that Hypothesis has found: it must hold by now. The files of tests about faults
(``fault_*.json``) have tests of their own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sim.replay import replay
from sim.scenario_file import Expected, SavedScenario, load_scenario

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path for path in CORPUS.glob("*.json") if not path.name.startswith("fault_"))
SECONDS = 60.0


def scenario(path: Path) -> SavedScenario:
    return load_scenario(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_holds(path: Path) -> None:
    saved = replace(scenario(path), expected=Expected())
    assert [str(each) for each in replay(saved, seconds=SECONDS).violations] == []


@pytest.mark.parametrize(
    "path", [path for path in FILES if scenario(path).expected.mutant], ids=lambda path: path.stem
)
def test_its_planted_bug_is_noticed(path: Path) -> None:
    saved = scenario(path)
    found = {(each.property, each.what) for each in replay(saved, seconds=SECONDS).violations}
    assert (saved.expected.property, saved.expected.what) in found


def test_every_file_can_be_read() -> None:
    for path in CORPUS.glob("*.json"):
        assert scenario(path).version == 1
