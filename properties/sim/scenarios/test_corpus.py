"""Old failures, kept as scenario files: they run first, and never fail again.

A file of the port whose ``expected`` names a planted bug shows that the bug is still noticed, by the
same property; without it everything holds. A file that expects outcome "failed" without one is a
failure that Hypothesis has found: it must hold by now. What PyTorch's engine has shown is played
in sim/stock/test_programs.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from squall.properties.findings.finding import findings
from squall.properties.support.paths import CORPUS
from squall.properties.support.replay_lines import Replayable
from squall.properties.support.saved_files import numbers_of, saved_files
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import dump_scenario, load_scenario
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.search.saved_scenarios import replayed


@pytest.mark.parametrize("number", numbers_of("port"))
def test_it_comes_to_what_its_file_says(number: int, replayable: Replayable) -> None:
    part = saved_files()
    saved = replayable(load_scenario(part.folder / part.files[number]))
    assert replayed(saved).violations == ()


def test_no_file_is_missing() -> None:
    part = saved_files()
    there = {part.folder / file for file in part.files}
    assert {*CORPUS.rglob("*.json"), *(one.scenario for one in findings() if one.scenario)} == there
    vary = {one.scenario for one in findings() if one.facts.scenario_varies}
    assert {part.folder / file for file in part.varies} == vary


def test_what_a_file_says_is_asked_for(tmp_path: Path) -> None:
    """One that names another failure than its run shows, or another digest, does not hold."""
    bug = load_scenario(CORPUS / "mutant_delete-not-sent.json")
    assert replayed(bug).violations == ()
    other = replace(bug, expected=replace(bug.expected, what="something else"))
    (wrong,) = replayed(other).violations
    assert (wrong.property, wrong.what) == ("saved", "it does not show")
    assert re.fullmatch("rrefs: .*", wrong.seen.split(", ")[0]), wrong
    with MUTANTS[str(bug.expected.mutant)].apply():  # as if the port had it
        assert replayed(replace(bug, expected=Expected())).violations


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
