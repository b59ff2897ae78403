"""What a campaign makes of its failures by itself: small scenarios, places, and what came back."""

import json
import os
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from squall.properties.sim.cli.test_known import seed_with_alone
from squall.properties.support.descendants import descendants
from squall.properties.support.waiting import wait_for
from squall.sim.campaigns.known import known
from squall.sim.campaigns.lease import Row, judged
from squall.sim.campaigns.parts import Part
from squall.sim.campaigns.parts.diff import DIFFERENCE, differences
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.store import CampaignStore
from squall.sim.campaigns.triage import Task, Triage, same, shown
from squall.sim.cli.main import main as run_command
from squall.sim.scenario import Expected
from squall.sim.scenarios.file import load_scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.stock.shared import close_fork_servers
from squall.sim.world.sandbox import Contained

#: a planted bug that the scenario of seed 0 shows, as what
BUG = "call-not-recorded"
#: more seeds than anybody waits for
MANY = 100_000
KEY = ("joint_graph", "operation", "dependencies_computed")


def scenario(mutant=BUG):
    return draw(0).__class__(**{**fields(draw(0)), "expected": Expected(mutant=mutant)})


def fields(one):
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def triage(tasks, seconds):
    done = []
    work = Triage(seconds=seconds, on_done=done.append)
    for task in tasks:
        work.add(task)
    work.finish(2)
    work.close()
    return done


def test_a_kind_is_made_small_and_what_does_not_show_is_told():
    tasks = Task(KEY, scenario(), shrink=True), Task(("rrefs", "something else", ""), scenario())
    done = {each.key[0]: each for each in triage(tasks, 5.0)}
    small = done[KEY[0]]
    assert small.shows is True
    assert small.scenario is not None
    assert small.scenario.operations < scenario().operations
    assert (small.scenario.expected.property, small.scenario.expected.what) == KEY[:2]
    assert small.events
    other = done["rrefs"]
    assert (other.shows, other.scenario) == (False, None)
    assert same({KEY: small.scenario, ("rrefs", "x", ""): small.scenario}) == {
        ("rrefs", "x", ""): KEY
    }


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
    assert failure["place"] == KEY[2]
    (each,) = known().values()
    assert (each.key, each.scenario) == (KEY, failure["file"])

    monkeypatch.setattr("squall.sim.search.verify_fix.code_stamp", lambda: "mended")
    clean = campaign("--store", "2", code=0)
    assert clean["regressions"] == []
    (each,) = known().values()
    assert [version.shows for version in each.versions] == [True, False]

    monkeypatch.setattr("squall.sim.search.verify_fix.code_stamp", lambda: "worse")
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
    monkeypatch.setattr("squall.sim.search.verify_fix.code_stamp", lambda: "mended")
    campaign("--store", "2", code=0)
    monkeypatch.setattr("squall.sim.search.verify_fix.code_stamp", lambda: "worse")
    with MUTANTS[BUG].apply():
        report = campaign("--store", "3", "--seeds", "1:2", "--no-shrink", code=1)
    (back,) = report["regressions"]
    assert (back["property"], back["gone"]["code"]) == (KEY[0], "mended")
    assert load_scenario(Path(back["file"])).seed == 0
    assert report["failed"] == 0


def beside(connection, folder, seeds, *words):
    """A campaign with a planted bug that everything shows, in a process of its own."""
    os.chdir(folder)
    with open("told", "w", encoding="utf-8") as told, MUTANTS["release-only-here"].apply():
        os.dup2(told.fileno(), 1)
        os.dup2(told.fileno(), 2)
        command = ["campaign", "--seeds", f"0:{seeds}", "--lease", "1", "--json", *words]
        try:
            run_command(command)
        except SystemExit as ended:
            connection.send(ended.code)


def rows_of(file, table):
    if not file.exists():
        return []
    db = sqlite3.connect(file)
    db.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in db.execute(f"SELECT * FROM {table}")]
    except sqlite3.OperationalError:
        return []  # there are no tables yet
    finally:
        db.close()


@pytest.mark.timeout(600)
def test_kinds_are_made_small_once_and_while_leases_go_on(tmp_path, monkeypatch):
    """The driver is killed as soon as a kind is small; who goes on makes the others small."""
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "kept"))
    monkeypatch.setattr("squall.sim.campaigns.triage.SHRINK_S", 2.0)
    file, most = tmp_path / "campaign.sqlite", 0

    def small(count):
        nonlocal most
        found = []
        for pid in descendants(driver.pid):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                found.append(os.getpriority(os.PRIO_PROCESS, pid))
        most = max(most, sum(each > os.getpriority(os.PRIO_PROCESS, 0) for each in found))
        rows = {row["what"]: row for row in rows_of(file, "triage") if row["scenario"]}
        return rows if len(rows) >= count else None

    driver = Contained(beside, tmp_path, MANY)
    first = wait_for(lambda: small(1), "a small scenario")
    driver.end()
    assert 0 < len(rows_of(file, "lease")) < MANY
    driver = Contained(beside, tmp_path, MANY, "--resume")
    second = wait_for(lambda: small(len(first) + 1), "another one")
    driver.end()
    assert second.items() >= first.items(), "what was made small is not made small again"
    assert most == 1, "one at a time, behind the leases"
    for row in second.values():
        assert load_scenario(Path(row["scenario"])).expected.what == row["what"]
        assert row["events"]


def test_failures_of_one_property_at_two_places_are_two_kinds(tmp_path):
    plan = Plan((Part("plain", range(6)),), size=6)
    (lease,) = plan.leases()
    store = CampaignStore(tmp_path / "db", plan.said(), resume=False)
    places = ["", "a", "b", "a", "b", "b"]
    store.take([judged(lease, [Row(n, "p", "w", "", place=at) for n, at in enumerate(places)])])
    assert [(kind.place, kind.seed, kind.scenarios) for kind in store.kinds()] == [
        ("", 0, 1), ("a", 1, 2), ("b", 2, 3),
    ]  # fmt: skip
    assert not any("a" in line.split('"p", "w"')[-1] for line in store.lines() if '"p"' in line)
    store.close()


@pytest.mark.deep("shrinks on both engines")
def test_a_failure_that_pytorch_is_known_to_have_is_told_apart(campaign, compiled_engine):
    seed = seed_with_alone("views of one gradient")
    words = ["--engine", "torch", "--seeds", f"{seed}:{seed + 1}", "--store", "1"]
    report = campaign(*words, "--no-shrink", code=1)  # as squall fuzz
    (failure,) = report["failures"]
    assert (failure["what"], failure["known"]) == (
        "a story: views of one gradient",
        ["gradient-stolen"],
    )
    with MUTANTS[BUG].apply():
        (failure,) = campaign("--store", "2", "--no-shrink", code=1)["failures"]
    assert failure["known"] == []


@pytest.mark.deep("shrinks on both engines")
def test_a_difference_between_the_engines_is_made_small(compiled_engine):
    """What a bug of the port makes of a program that is the same on both otherwise."""
    first = Part("diff", range(1), engine="torch").scenario(Row(0))
    whole = replace(first, expected=Expected(mutant=BUG))
    with MUTANTS[BUG].apply(), campaign_settings():
        found = [(each.what, place) for each, place in differences(first)]
    close_fork_servers()  # copies of this process would share it
    assert found
    key = (DIFFERENCE, *found[0])
    done = triage([Task(key, whole, shrink=True), Task(key, first)], 10.0)
    small, holds = sorted(done, key=lambda each: not each.shows)
    assert (small.shows, holds.shows) == (True, False)
    assert small.scenario.operations < whole.operations
    assert shown(small.scenario, key) is not None
    assert small.scenario.expected.property is None, "a replay of one engine shows nothing"
