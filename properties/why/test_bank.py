"""The programs of the bank fail as their headers say, and hold without their bug."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from squall.properties.why.bank import SEEDS, Program, programs

CASES = [
    pytest.param(program, engine, id=f"{program.name}-{engine}")
    for program in programs()
    for engine in program.engines
]


def test_there_are_four_of_each_kind_or_more_and_each_has_an_answer() -> None:
    bank = programs()
    assert min(Counter(program.kind for program in bank).values()) == 4
    for program in bank:
        answer = program.answer
        assert set(answer) in ({"at fault"}, {"first", "second"}), program.name
        assert program.fixed != program.text, program.name


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("program", "engine"), CASES)
def test_a_program_fails_as_it_says_and_holds_without_its_bug(
    program: Program, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path))
    assert re.search(program.shows, "\n".join(program.search(engine)))
    # Processes take longer; one seed after the other shows the same on both.
    seeds = range(SEEDS if engine == "port" else 5)
    assert program.search(engine, fixed=True, seeds=seeds) == []
    if program.always:
        assert all(program.search(engine, seeds=range(n, n + 1)) for n in range(3))
