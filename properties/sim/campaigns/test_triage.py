"""What a campaign makes of its failures by itself: small scenarios, places, and what came back."""

import json
from pathlib import Path

import pytest

from squall.sim.campaigns.known import known
from squall.sim.campaigns.triage import Task, Triaged, same, triage
from squall.sim.cli.main import main as run_command
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import load_scenario
from squall.sim.search.draw import draw
from squall.sim.search.mutants.families import MUTANTS

#: a planted bug that the scenario of seed 0 shows, as what
BUG = "call-not-recorded"
KEY = ("joint_graph", "operation")


def scenario(mutant=BUG):
    return draw(0).__class__(**{**fields(draw(0)), "expected": Expected(mutant=mutant)})


def fields(one):
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def test_a_kind_is_made_small_and_what_does_not_show_is_told():
    done: dict[str, Triaged] = {}

    def take(each):
        done[each.key[0]] = each

    triage(
        [Task(KEY, scenario(), shrink=True), Task(("rrefs", "something else"), scenario())],
        jobs=2,
        seconds=5.0,
        on_done=take,
    )
    small = done[KEY[0]]
    assert small.shows is True
    assert small.scenario is not None
    assert small.scenario.operations < scenario().operations
    assert (small.scenario.expected.property, small.scenario.expected.what) == KEY
    assert small.place
    assert small.events
    assert not any(digit in small.place for digit in "0123456789")
    other = done["rrefs"]
    assert (other.shows, other.scenario) == (False, None)
    assert same({KEY: small.scenario, ("rrefs", "x"): small.scenario}) == {("rrefs", "x"): KEY}


@pytest.fixture
def campaign(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SQUALL_STORE", raising=False)

    def run(*words, code):
        with pytest.raises(SystemExit) as ended:
            run_command(["campaign", "--seeds", "0:1", "--json", *words])
        said = capsys.readouterr()
        assert ended.value.code == code, said
        return json.loads(said.out)

    return run


def test_a_failure_that_comes_back_is_a_regression(campaign, monkeypatch):
    with MUTANTS[BUG].apply():
        found = campaign("--store", "1", "--no-shrink", code=1)
    (failure,) = found["failures"]
    assert (failure["property"], failure["shrunk"], failure["regression"]) == (KEY[0], None, None)
    assert [each["shows"] for each in failure["versions"]] == [True]
    assert failure["place"]
    (each,) = known().values()
    assert (each.key, each.scenario) == (KEY, failure["file"])

    monkeypatch.setattr("squall.sim.campaigns.plan.code_stamp", lambda: "mended")
    clean = campaign("--store", "2", code=0)
    assert clean["regressions"] == []
    (each,) = known().values()
    assert [version.shows for version in each.versions] == [True, False]

    monkeypatch.setattr("squall.sim.campaigns.plan.code_stamp", lambda: "worse")
    with MUTANTS[BUG].apply():
        again = campaign("--store", "3", "--no-shrink", code=1)
        (failure,) = again["failures"]
        assert failure["regression"]["code"] == "mended"
        assert [version["shows"] for version in failure["versions"]] == [True, False, True]
        # whoever goes on is told so again
        assert campaign("--store", "3", "--no-shrink", "--resume", code=1)["failures"] == [failure]


def test_what_other_seeds_have_shown_is_looked_for_again(campaign, monkeypatch):
    with MUTANTS[BUG].apply():
        campaign("--store", "1", "--no-shrink", code=1)
    monkeypatch.setattr("squall.sim.campaigns.plan.code_stamp", lambda: "mended")
    campaign("--store", "2", code=0)
    monkeypatch.setattr("squall.sim.campaigns.plan.code_stamp", lambda: "worse")
    with MUTANTS[BUG].apply():
        report = campaign("--store", "3", "--seeds", "1:2", "--no-shrink", code=1)
    (back,) = report["regressions"]
    assert (back["property"], back["gone"]["code"]) == (KEY[0], "mended")
    assert load_scenario(Path(back["file"])).seed == 0
    assert report["failed"] == 0
