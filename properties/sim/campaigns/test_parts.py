"""Parts of a campaign: what their numbers stand for, and what comes of them."""

import json
import math
import os
import signal
import sys
from multiprocessing import active_children
from pathlib import Path

import pytest
import torch

from squall.sim.campaigns.bugs import BY_DEFAULT
from squall.sim.campaigns.driver import drive
from squall.sim.campaigns.file import COSTS, load_plan
from squall.sim.campaigns.parts import Canaries, Diff, Exploration, Guided, Part, Versions, part_of
from squall.sim.campaigns.parts.diff import differences
from squall.sim.campaigns.parts.guided import stamp_of_cover
from squall.sim.campaigns.parts.versions import BLOCK
from squall.sim.campaigns.plan import Plan
from squall.sim.campaigns.pool import TRIES, Pool
from squall.sim.campaigns.row import dumped, loaded
from squall.sim.campaigns.store import CampaignStore
from squall.sim.campaigns.triage import shown
from squall.sim.cli.main import main as run_command
from squall.sim.search.covers import shipped
from squall.sim.search.draw import Settings
from squall.sim.search.judge import judge
from squall.sim.search.mutants.mutant import Mutant
from squall.sim.search.mutants.registry import MUTANTS
from squall.sim.search.schedules import Rescheduled

#: planted bugs: the scenario of seed 0 shows the first, and under no profile of faults the other
DIES, SURVIVES = "call-not-recorded", "delays-double"
#: another one, which nearly all show
LEAVES = "release-only-here"
GUIDED = Guided("guided", range(3, 7), "rough", cover=stamp_of_cover("rough"))
CANARIES = Canaries("canaries", range(2), bugs=(DIES, SURVIVES), each=1)
EXPLORED = Exploration("explore", range(4), programs="workers<=2, calls<=1", executions=1000)


def rows(part, numbers=None):
    return list(part.rows(part.seeds if numbers is None else numbers, lambda: None))


@pytest.mark.parametrize(
    "part",
    [Part("p", range(2, 9), "storm", "torch"), GUIDED, CANARIES, EXPLORED, Diff("d", range(3))],
    ids=lambda part: part.kind,
)
def test_a_part_is_what_it_has_said(part):
    assert part_of(json.loads(json.dumps(part.said()))) == part


@pytest.mark.deep("starts interpreters again and again")
def test_versions_are_judged_by_their_interpreters(tmp_path):
    # another environment's interpreter; that its torch is the same is for its verdicts to say
    file = tmp_path / "campaign.toml"
    file.write_text(
        f"scenarios = 8\npython = ['{sys.executable}', '{sys.executable}']\n"
        "[parts]\nversions = { share = 1, faults = 'rough' }\n",
        encoding="utf-8",
    )
    (part,) = load_plan(file).parts
    assert part.torch == (torch.__version__,) * 2
    assert part.place(BLOCK - 1) == (0, BLOCK - 1)
    assert part.place(BLOCK + 3) == (1, 3)
    assert part.place(2 * BLOCK) == (0, BLOCK)
    assert part_of(json.loads(json.dumps(part.said()))) == part
    numbers = range(BLOCK - 2, BLOCK + 2)
    here = Part("rough", numbers, "rough")
    expected = [*rows(here, range(BLOCK - 2, BLOCK)), *rows(here, range(2))]
    found = rows(part, numbers)
    assert [row.seed for row in found] == list(numbers)
    assert [row[1:] for row in found] == [row[1:] for row in expected]
    assert part.name_of(BLOCK + 1) == f"seed 1 on torch {torch.__version__}"


def test_a_version_on_which_processes_end_fails_and_is_named(tmp_path):
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
    other.chmod(0o755)
    part = Versions("versions", range(2), python=(str(other),), torch=("2.0",))
    found = rows(part)
    assert [(row.seed, row.property, row.what) for row in found] == [
        (0, "progress", "the process ended (torch 2.0)"),
        (1, "progress", "the process ended (torch 2.0)"),
    ]
    assert part.again(found[1]) == f"{other} -m squall replay 1"


def test_guided_numbers_are_the_cover_on_one_schedule_after_the_other():
    seeds = shipped("rough").seeds
    count = len(seeds)
    part = Guided("guided", range(3 * count), "rough")
    assert part.source(0) == Rescheduled(seeds[0], 0)
    assert part.source(count - 1) == Rescheduled(seeds[-1], 0)
    assert part.source(2 * count + 5) == Rescheduled(seeds[5], 2)
    assert part.name_of(count + 1) == f"seed {seeds[1]}@1"


def test_guided_rows_are_those_of_its_scenarios_wherever_they_are_cut():
    found = rows(GUIDED)
    assert [row.seed for row in found] == list(GUIDED.seeds)
    assert found == rows(GUIDED, range(3, 5)) + rows(GUIDED, range(5, 7))
    for row in found:
        verdict = judge(GUIDED.source(row.seed), Settings("rough"))
        assert (row.property, row.events) == ("", verdict.events)


def test_a_canary_that_dies_is_well_and_one_that_lives_is_a_failure():
    died, lived = rows(CANARIES)
    assert (died.property, died.what) == ("", "")
    assert (lived.property, lived.what) == ("canary", SURVIVES)
    assert lived.text.startswith(f"canary: {SURVIVES}: expected a failure in one of 3 scenarios (")
    assert rows(CANARIES) == [died, lived]
    assert died.digest != lived.digest


@pytest.mark.parametrize(
    ("new", "by"), [("while True: pass", "hang"), ("import os; os._exit(3)", "crash")]
)
def test_a_canary_that_hangs_or_ends_its_process_is_dead(monkeypatch, new, by):
    from squall.sim.campaigns.parts import canaries
    from squall.sim.search.mutants import campaign

    mutant = Mutant(
        name="planted",
        place="future:Future._tell",
        old="    while waiting:",
        new=f"    {new}\n    while waiting:",
        wrong="the process does not go on",
    )
    monkeypatch.setitem(canaries.MUTANTS, "planted", mutant)
    monkeypatch.setattr(campaign, "HANG_S", 1.0)
    (row,) = rows(Canaries("canaries", range(1), bugs=("planted",), each=1))
    assert row.property == "", row


def test_a_bug_that_does_not_fit_is_a_failure(monkeypatch):
    from squall.sim.campaigns.parts import canaries

    mutant = Mutant(name="old", place="future:Future._tell", old="no such text", new="", wrong="")
    monkeypatch.setitem(canaries.MUTANTS, "old", mutant)
    (row,) = rows(Canaries("canaries", range(1), bugs=("old",), each=1))
    assert (row.property, row.what) == ("canary", "old")
    assert "has the text to replace 0 times" in row.text


def test_every_program_is_explored_and_a_budget_that_is_too_small_is_a_failure():
    found = rows(EXPLORED)
    assert [row.property for row in found] == [""] * 4
    assert len({row.digest for row in found}) > 1
    assert found == rows(EXPLORED, range(2)) + rows(EXPLORED, range(2, 4))
    small = Exploration("explore", range(4), programs="workers<=2, calls<=1", executions=1)
    left = [row for row in rows(small) if row.property]
    assert {(row.property, row.what) for row in left} == {("explored", "not every order was run")}
    assert small.again(left[0]).startswith("squall explore --programs")


@pytest.mark.parametrize(
    "part",
    [
        Part("plain", range(1, 4)),
        Guided("guided", range(2), "rough", cover=stamp_of_cover("rough")),
        EXPLORED,
    ],
    ids=lambda part: part.kind,
)
def test_what_fails_shows_at_the_place_that_its_row_names(part):
    """A replay of the scenario that a row has, which triage begins with, shows the same kind."""
    with MUTANTS[LEAVES].apply():
        failed = [row for row in rows(part) if row.property]
        assert failed and all(row.place for row in failed)
        assert rows(part, range(failed[0].seed, failed[0].seed + 1)) == [
            row for row in rows(part) if row.seed == failed[0].seed
        ]
        for row in failed:
            key = (row.property, row.what, row.place)
            found = shown(part.scenario(row), key)
            assert found is not None
            assert shown(part.scenario(row), (*key[:2], "elsewhere")) is None
            assert loaded(dumped(row)) == row, "as another interpreter tells it"


def test_a_difference_between_the_engines_names_what_was_counted(compiled_engine):
    part = Diff("diff", range(1, 4))
    with MUTANTS[DIES].apply():
        failed = [row for row in rows(part) if row.property]
        assert failed
        for row in failed:
            kinds = [(each.what, place) for each, place in differences(part.scenario(row))]
            assert kinds[0] == (row.what, row.place)
    assert [row for row in rows(part) if row.property] == []


def table(file, plan, jobs=1, **options):
    store = CampaignStore(file, plan.said(), resume=False)
    try:
        drive(plan, store, Pool(jobs), **options)
        return "".join(store.lines())
    finally:
        store.close()


def test_the_table_of_all_parts_is_the_same_with_workers_killed(tmp_path):
    plan = Plan((Part("plain", range(4)), GUIDED, CANARIES, EXPLORED), size=2)
    whole = table(tmp_path / "whole", plan)
    assert whole.count('["lease"') == 2 + 2 + 2 + 2
    assert whole.count('["failure"') == 1
    left = {each.pid for each in active_children()}
    kills = 0

    def kill(judged):
        nonlocal kills
        kills += 1
        for child in active_children():
            if child.pid not in left and kills < TRIES:  # more could end one number's every process
                os.kill(child.pid, signal.SIGKILL)

    assert table(tmp_path / "killed", plan, jobs=2, on_lease=kill) == whole
    assert Plan.read(plan.said()) == plan


def test_shares_are_those_of_the_time(tmp_path):
    file = tmp_path / "campaign.toml"
    file.write_text(
        "scenarios = 11000\nfirst_seed = 5\n[parts]\nplain = 0.5\ntorch = 0.5\n"
        f"[parts.canaries]\nbugs = ['{DIES}']\nseeds = 7\n"
        "[parts.more]\nkind = 'explore'\nprograms = 'workers<=2, calls<=1'\n",
        encoding="utf-8",
    )
    plain, compiled, canaries, more = load_plan(file).parts
    assert len(plain.seeds) + len(compiled.seeds) == 11000
    assert math.isclose(
        len(plain.seeds) * COSTS["port"], len(compiled.seeds) * COSTS["torch"], rel_tol=0.01
    )
    assert plain.seeds.start == compiled.seeds.start == 5
    assert (canaries.bugs, canaries.each, canaries.seeds) == ((DIES,), 7, range(1))
    assert (more.name, more.kind, len(more.seeds)) == ("more", "explore", 4)


def test_a_campaign_fails_if_a_canary_lives(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SQUALL_STORE", raising=False)
    Path("campaign.toml").write_text(
        f"scenarios = 2\n[parts]\nplain = 1\n[parts.canaries]\nbugs = ['{DIES}', '{SURVIVES}']\nseeds = 1\n",
        encoding="utf-8",
    )
    with pytest.raises(SystemExit) as ended:
        run_command(["campaign", "campaign.toml", "--json"])
    said = capsys.readouterr()
    assert ended.value.code == 1
    report = json.loads(said.out)
    assert (report["outcome"], report["scenarios"], report["failed"]) == ("failed", 4, 1)
    (failure,) = report["failures"]
    assert (failure["property"], failure["what"], failure["part"]) == (
        "canary",
        SURVIVES,
        "canaries",
    )
    assert failure["replay"] == f"squall mutants {SURVIVES} --seeds 0:1"
    assert failure["file"] is None
    assert [(part["kind"], part["judged"]) for part in report["parts"]] == [
        ("seeds", 2),
        ("canaries", 2),
    ]
    assert f"canaries, {SURVIVES}: canary: {SURVIVES}: " in said.err


@pytest.mark.deep("tries all of them")
@pytest.mark.timeout(1200)
def test_canaries_by_default_die_early():
    part = Canaries("canaries", range(len(BY_DEFAULT)), bugs=BY_DEFAULT, each=60)
    assert [row.text for row in rows(part) if row.property] == []
