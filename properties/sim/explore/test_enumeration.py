"""All tiny programs: how many there are, and what they come to in every order."""

from __future__ import annotations

import json

import pytest

from squall.properties.support.commands import squall
from squall.sim.cli.reports.explored_programs import Totals
from squall.sim.explore.campaign import parts
from squall.sim.explore.enumeration import BoundsError, programs, read_bounds, scenarios
from squall.sim.explore.execution import How
from squall.sim.explore.search import Budget


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("workers<=2, calls<=1", 4),
        ("workers<=2, calls<=2", 20),
        ("calls<=2,workers<=3", 36),
        ("workers=3, calls=2", 16),
        ("workers<=3, calls<=3", 420),
    ],
)
def test_there_are_so_many_programs(expression: str, count: int) -> None:
    found = list(programs(read_bounds(expression)))
    assert len(found) == count
    assert len({text for text, _ in found}) == count
    assert len({program for _, program in found}) == count
    assert all(program.workers <= 3 for _, program in found)


def test_programs_of_one_call_have_so_many_behaviours() -> None:
    totals = Totals()
    chosen = scenarios(read_bounds("workers<=2, calls<=1"))
    for text, scenario in chosen:
        totals.add(text, list(parts(scenario, How("message", ordered=False), Budget())))
    assert (totals.programs, totals.exhausted, totals.failed) == (4, 4, 0)
    assert (totals.complete, totals.classes, totals.pruned) == (262, 262, 0)
    assert totals.states == 4 and not totals.several


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "three",
        "workers<=3",
        "workers<=1, calls<=2",
        "workers<=3, calls<=99",
        "calls<=2, calls<=2",
    ],
)
def test_what_is_no_size_is_refused(expression: str) -> None:
    with pytest.raises(BoundsError, match="expected workers<=N, calls<=M"):
        read_bounds(expression)


def test_the_command_tells_totals() -> None:
    ran = squall("explore", "--programs", "workers<=2, calls<=1", "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["outcome"] == "ok" and told["scenarios"] == []
    assert told["programs"]["count"] == told["programs"]["exhausted"] == 4
    shown = squall("explore", "--programs", "workers<=2, calls<=1", "--budget", "1")
    assert shown.returncode == 4
    assert "not exhausted" in shown.stdout and "4, 1 in every order" in shown.stdout


def test_the_command_names_programs_in_which_something_fails() -> None:
    words = ("--programs", "workers<=2, calls<=1", "--mutant", "reply-before-clean-up", "--json")
    ran = squall("explore", *words)
    assert ran.returncode == 1
    told = json.loads(ran.stdout)
    assert told["programs"]["failed"] == len(told["scenarios"]) > 0
    assert told["scenarios"][0]["scenario"].endswith("backward")


@pytest.mark.parametrize("words", [("--programs", "cals<=2"), ("7", "--programs", "calls<=2"), ()])
def test_bad_input_is_told_in_one_line(words: tuple[str, ...]) -> None:
    ran = squall("explore", *words)
    assert ran.returncode == 2
    assert len(ran.stderr.splitlines()) == 1
    assert "expected" in ran.stderr
