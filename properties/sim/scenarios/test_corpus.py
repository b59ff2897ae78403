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

from squall.properties.support.paths import CORPUS
from squall.properties.support.replay_lines import Replayable
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import dump_scenario, load_scenario
from squall.sim.search.again import again
from squall.sim.search.mutants.families import MUTANTS

FILES = sorted(path for path in CORPUS.glob("*.json") if not path.name.startswith("fault_"))
SECONDS = 60.0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_holds(path: Path, replayable: Replayable) -> None:
    saved = replayable(replace(load_scenario(path), expected=Expected()))
    assert [str(each) for each in again(saved, seconds=SECONDS).violations] == []


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if load_scenario(path).expected.mutant],
    ids=lambda path: path.stem,
)
def test_its_planted_bug_is_noticed(path: Path, replayable: Replayable) -> None:
    saved = replayable(load_scenario(path))
    found = {(each.property, each.what) for each in again(saved, seconds=SECONDS).violations}
    assert (saved.expected.property, saved.expected.what) in found


@pytest.mark.parametrize(
    "name", [name for name, each in MUTANTS.items() if each.expected and each.needs_faults]
)
def test_a_bug_that_only_faults_bring_out_has_a_scenario(name: str) -> None:
    """Shrunk: `python -m benchmarks.shrinking NAME --save properties/corpus`."""
    saved = load_scenario(CORPUS / f"mutant_{name}.json")
    assert saved.expected.mutant == name
    assert saved.workers is not None and saved.workers <= 3
    assert saved.operations is not None and saved.operations <= 8
    assert len(saved.faults) <= 3


def test_every_file_can_be_read_and_written() -> None:
    for path in CORPUS.glob("*.json"):
        scenario = load_scenario(path)
        assert load_scenario(dump_scenario(scenario)) == scenario
