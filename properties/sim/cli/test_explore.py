"""``squall explore``: outcomes, exit codes, what is kept of a failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from squall.properties.support.commands import squall

SCENARIOS = "properties/sim/explore/scenarios"
#: in how many orders messages can arrive in the small one
ORDERS = 27
SMALL, LARGE = f"{SCENARIOS}/small.json", f"{SCENARIOS}/large.json"
#: its workers leave while others are at work, by barriers of their store
LEAVING = f"{SCENARIOS}/leaving.json"


def explored(*words: str, code: int, **env: str) -> dict[str, Any]:
    ran = squall("explore", *words, "--json", **env)
    assert ran.returncode == code, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def test_a_program_of_which_every_order_is_right_ends_well() -> None:
    told = explored(SMALL, code=0)
    assert told["outcome"] == "ok"
    (scenario,) = told["scenarios"]
    (whole,) = scenario["explorations"]
    assert whole["exhausted"] and whole["left"] == 0
    assert whole["complete"] == whole["classes"] == ORDERS
    assert len(whole["states"]) == 1 and whole["states"][0]["executions"] == ORDERS
    assert told["not_covered"]
    reached = [name for name, is_reached in scenario["sometimes"].items() if is_reached]
    assert 0 < len(reached) < len(scenario["sometimes"])


def test_a_grain_that_was_not_asked_for_is_one_that_the_program_can_have(tmp_path: Path) -> None:
    file = str(tmp_path / "frontier.json")
    for _ in range(2):  # it goes on in that grain, too
        ran = squall("explore", LEAVING, "--budget", "3", "--resume", file, "--json")
        assert ran.returncode == 4 and json.loads(ran.stdout)["grain"] == "task"
        said = ran.stderr
        assert "<task" not in said
    assert said == ""


def test_a_spent_budget_is_not_well() -> None:
    told = explored(LARGE, "--budget", "30", code=4)
    assert told["outcome"] == "not exhausted"
    (whole,) = told["scenarios"][0]["explorations"]
    assert whole["executions"] == 30 and whole["left"] > 30
    shown = squall("explore", LARGE, "--budget", "30")
    assert shown.returncode == 4
    assert "not exhausted" in shown.stdout and "Knuth's" in shown.stdout
    assert "not covered: timers" in shown.stdout


def test_what_fails_is_kept_with_an_order_that_shows_it_again(tmp_path: Path) -> None:
    where = {"SQUALL_STORE": str(tmp_path)}
    told = explored(SMALL, "--mutant", "reply-before-clean-up", code=1, **where)
    assert told["outcome"] == "failed"
    found = told["scenarios"][0]["violations"][0]
    assert found["property"] == "execution"
    kept = json.loads(Path(found["file"]).read_text(encoding="utf-8"))
    assert kept["world"]["faults"]["schedule"]["grain"] == "message"
    again = squall("replay", found["file"], "--json", **where)
    assert again.returncode == 1
    replayed = json.loads(again.stdout)
    assert replayed["digest"] == kept["expected"]["digest"]
    assert found["what"] in [each["what"] for each in replayed["violations"]]


def test_an_exploration_goes_on_where_it_was_broken_off(tmp_path: Path) -> None:
    file = tmp_path / "frontier.json"
    words = (SMALL, "--resume", str(file))
    explored(*words, "--budget", "3", code=4)
    assert file.exists()
    told = explored(*words, code=0)
    assert told["scenarios"][0]["explorations"][0]["complete"] == ORDERS
    assert not file.exists()
    file.write_text("{}", encoding="utf-8")
    assert "cannot go on with" in squall("explore", *words).stderr


def test_a_script_is_explored_as_it_is() -> None:
    """Two workers and a pass of the example: too many orders for twenty executions."""
    words = ("examples/pipeline.py", "--workers", "2", "--budget", "20")
    told = explored(*words, code=4)
    (whole,) = told["scenarios"][0]["explorations"]
    assert whole["executions"] == 20 and not whole["failed"]


def test_with_one_fault_each_message_is_lost_doubled_late_and_not_sent() -> None:
    told = explored(SMALL, "--faults", "one", "--budget", "3", code=4)
    _, *faulty = told["scenarios"][0]["explorations"]
    *of_messages, first, second = [each["fault"] for each in faulty]
    assert (first, second) == ("worker0 ends", "worker1 ends")
    assert len(of_messages) % 6 == 0
    assert {each.split(maxsplit=3)[3] for each in of_messages} == {
        "lost", "doubled", "1.2 s late", "61 s late", "70 s late", "fails",
    }  # fmt: skip
    shown = squall("explore", SMALL, "--faults", "one", "--budget", "3").stdout
    assert f"{len(of_messages) // 6} explorations" in shown and "ends" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((LEAVING, "--grain", "message"), "expected --grain task"),
        ((SMALL, "--grain", "coarse"), "expected message or task or fine"),
        ((SMALL, "--budget", "none"), "expected a number of executions or seconds"),
        ((SMALL, "--budget", "0s"), "expected a number of executions or seconds"),
        (("no such file",), "is no seed, no file"),
        (("no_such_file.py",), "there is no file 'no_such_file.py'"),
        ((SMALL, "--workers", "2"), "is for a script, and"),
    ],
)
def test_bad_input_is_told_in_one_line(words: tuple[str, ...], said: str) -> None:
    ran = squall("explore", *words)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
