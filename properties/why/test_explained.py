"""``squall why`` names the lines of the bank's answers, but for the rows of docs/why.md that say "no"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from squall.properties.support.paths import DOCS
from squall.properties.why.bank import Program
from squall.properties.why.explained import explain
from squall.properties.why.test_bank import CASES

_ROW = re.compile(r"\| (?P<name>\S+) \| (?P<engine>\w+) \|.*\| (?P<right>yes|no) \|.*")


def rows() -> dict[tuple[str, str], bool]:
    text = (DOCS / "why.md").read_text(encoding="utf-8")
    found = map(_ROW.fullmatch, text.splitlines())
    return {(row["name"], row["engine"]): row["right"] == "yes" for row in found if row is not None}


def test_each_program_has_a_row_for_each_engine() -> None:
    measured = rows()
    assert {(program.name, engine) for program, engine in (case.values for case in CASES)} == set(
        measured
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("program", "engine"), CASES)
def test_the_answer_is_named(
    program: Program, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not rows()[program.name, engine]:
        pytest.skip("not yet: see docs/why.md")
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path))
    row = explain(program, engine)
    assert row.right, f"{row.named} {row.why}"
