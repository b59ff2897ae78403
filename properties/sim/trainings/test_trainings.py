"""Random trainings over process groups: drawn, rendered, played, made smaller; and planted bugs are noticed in them."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from squall.model.checks.registry import check
from squall.model.checks.scripts import counted
from squall.properties.planted.trainings.users import MISTAKES
from squall.properties.support.commands import python, squall
from squall.sim.faults.draw import Profile
from squall.sim.faults.kinds.crash import Crash
from squall.sim.faults.kinds.drop import Drop
from squall.sim.faults.plan import Plan
from squall.sim.scenario import Scenario
from squall.sim.scenarios.play import play
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import judge
from squall.sim.search.mutants.campaign import run_mutants
from squall.sim.search.mutants.registry import MUTANTS_OF_GROUPS
from squall.sim.search.mutants.trial import Limits
from squall.sim.search.schedules import Rescheduled
from squall.sim.search.shrink.shrinker import Shrinker
from squall.sim.trainings import render
from squall.sim.trainings.cuts import smaller
from squall.sim.trainings.draw import draw_training
from squall.sim.trainings.render import script_text
from squall.sim.trainings.training import Talk, Training, training_in

SETTINGS = Settings(engine="torch", groups=True)
#: seeds that are looked at for a mistake, and how many of those are played in which it can be made
LOOKED_AT, PLAYED = 400, 8


def text_of(scenario: Scenario) -> str:
    assert scenario.script is not None
    return scenario.script.text


def test_a_script_has_the_training_that_it_was_made_of() -> None:
    for seed in range(200):
        training = draw_training(seed)
        text = script_text(training)
        compile(text, "training", "exec")
        assert training_in(text) == training == draw_training(seed)
    assert training_in("print(1)") is None


def test_what_is_smaller_is_a_training_too() -> None:
    seen = 0
    for seed in range(60):
        training = draw_training(seed)
        for less in smaller(training):
            assert less.size < training.size
            compile(script_text(less), "training", "exec")
            seen += 1
    assert seen > 300


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ({"ranks": 1}, r"Training\.ranks: 1 is wrong"),
        (
            {"ranks": 3, "wrapper": "hsdp"},
            r"Training\.ranks: 3 is wrong: should be 4, 6 or 8 for hsdp",
        ),
        ({"wrapper": "fsdp", "layers": ("linear", "again")}, "'again' is wrong: fsdp has none"),
        ({"layers": ("frozen",)}, "should have one that is trained"),
        ({"wrapper": "pipeline", "layers": ("linear",)}, "should be 2, a stage each"),
        ({"rounds": 2, "layers": ("linear", "buffer")}, r"Training\.rounds: 2 is wrong"),
        ({"talks": (Talk(call="barrier", among=(0, 2)),)}, "there is no such rank"),
    ],
)
def test_what_is_none_is_refused(made: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Training(**made)


@pytest.mark.parametrize("among", [(0,), (1, 0), (0, 0)])
def test_a_talk_has_several_ranks_in_their_order(among: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"Talk\.among"):
        Talk(call="barrier", among=among)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("profile", [None, "mild", "rough"])
@pytest.mark.parametrize("seed", range(1000, 1012))
@pytest.mark.usefixtures("compiled_engine")
def test_nothing_is_wrong(seed: int, profile: Profile | None) -> None:
    verdict = judge(seed, SETTINGS._replace(profile=profile, twice=True))
    assert verdict.ok, verdict.violations
    assert verdict.events


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(0, 60, 5))
def test_nothing_is_wrong_on_stock_pytorch(seed: int, tmp_path: Path) -> None:
    training = draw_training(seed)
    script = tmp_path / "training.py"
    script.write_text(script_text(training), encoding="utf-8")
    words = ["--standalone", f"--nproc-per-node={training.ranks}", str(script)]
    done = python("-m", "torch.distributed.run", *words, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr


def test_whatever_is_drawn_is_a_training_and_eight_ranks_are_rare() -> None:
    drawn = [draw_training(seed) for seed in range(3000)]
    ranks = Counter(each.ranks for each in drawn)
    assert {*ranks} == {2, 3, 4, 8} and 0 < ranks[8] < 60 < 900 < ranks[2], ranks


def test_each_mistake_has_its_place_in_one_of_the_first_trainings() -> None:
    texts = [text_of(draw(seed, SETTINGS)) for seed in range(100)]
    without = [name for name, it in MISTAKES.items() if not any(map(it.made_in, texts))]
    assert without == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.usefixtures("compiled_engine")
def test_a_mistake_is_noticed(name: str) -> None:
    scenarios = (draw(seed, SETTINGS) for seed in range(LOOKED_AT))
    assert any(not judge(each, SETTINGS).ok for each in islice(_with(name, scenarios), PLAYED))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, mutant in MUTANTS_OF_GROUPS.items()
        if mutant.expected and not name.startswith("user-")
    ],
)
@pytest.mark.usefixtures("compiled_engine")
def test_a_planted_bug_is_noticed(name: str) -> None:
    (result,) = run_mutants([MUTANTS_OF_GROUPS[name]], Limits(smaller_s=0.0))
    assert result.campaign.killed, result


@pytest.mark.usefixtures("compiled_engine")
def test_a_planted_bug_is_in_all_processes_and_gone_afterwards() -> None:
    """The one is in the script, the other in PyTorch's code on each rank."""
    texts = {seed: text_of(draw(seed, SETTINGS)) for seed in range(100)}
    for name, shows in (
        ("user-scaled-twice", "loss_of(model, step, round, share).backward"),
        ("later-reduction-is-a-sum", "all_reduce(mine, op=dist.ReduceOp.MAX"),
    ):
        seed = next(seed for seed, text in texts.items() if shows in text)
        with MUTANTS_OF_GROUPS[name].apply():
            verdict = judge(seed, SETTINGS)
            assert not verdict.ok
            with MUTANTS_OF_GROUPS[name].lifted():
                assert judge(seed, SETTINGS).ok
        again = judge(seed, SETTINGS)
        assert again.ok and again.scenario is None


def _with(name: str, scenarios: Iterator[Scenario]) -> Iterator[Scenario]:
    for scenario in scenarios:
        text, script = MISTAKES[name].made_in(text_of(scenario)), scenario.script
        if text is not None and script is not None:
            yield replace(scenario, work=replace(script, text=text))


@pytest.mark.deep("it plays some twenty trainings")
@pytest.mark.usefixtures("compiled_engine")
def test_a_failure_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = render._TRAIN.replace(
        "each.step()", "each.step() if step < 1 or each is optimizers[0] else None"
    )
    monkeypatch.setattr(render, "_TRAIN", planted)
    first = next(
        scenario
        for scenario in (draw(seed, SETTINGS._replace(profile="rough")) for seed in range(60))
        if (training := training_in(text_of(scenario))) is not None
        and (training.ranks, training.steps, training.wrapper) == (4, 3, "ddp")
    )
    shrinker = Shrinker(first, seconds=120)
    shrinker.run()
    small = training_in(text_of(shrinker.best))
    assert small is not None
    assert (small.ranks, small.steps, small.talks, small.wrapper) == (2, 2, (), "by hand")
    assert not shrinker.best.faults.goes_wrong


@pytest.mark.usefixtures("compiled_engine")
def test_what_a_fault_may_have_caused_is_no_failure() -> None:
    plan = Plan(workers=(Crash(worker=1, at_s=0.002),))
    scenario = draw(1, SETTINGS._replace(plan=plan))
    run = play(scenario, stdout=io.StringIO(), stderr=io.StringIO())
    told = [each.what for each in check(run)]
    assert "a process raised RuntimeError" in told
    assert not list(counted(run, check(run)))
    assert judge(scenario, SETTINGS).ok


@pytest.mark.parametrize(
    ("plan", "bug"),
    [
        (Plan(messages=(Drop(types=("COLLECTIVE",), nth=(2,)),)), "lost-piece-is-not-sent-again"),
        (Plan(workers=(Crash(worker=1, at_s=0.004),)), "leaving-is-not-seen"),
    ],
)
@pytest.mark.usefixtures("compiled_engine")
def test_what_no_fault_has_caused_is_a_failure(plan: Plan, bug: str) -> None:
    """What was lost is sent again, and the end of a connection is seen: nobody waits until a limit."""
    scenarios = [draw(seed, SETTINGS._replace(plan=plan)) for seed in range(6)]
    assert all(judge(each).ok for each in scenarios[:2])
    with MUTANTS_OF_GROUPS[bug].apply():
        assert not all(judge(each).ok for each in scenarios)


def test_another_schedule_is_of_the_same_training() -> None:
    own, other = draw(3, SETTINGS), draw(Rescheduled(3, 1), SETTINGS)
    assert text_of(own) == text_of(other)
    assert (own.note, other.note) == ("groups:3", "groups:3@1")
    assert own.seed != other.seed


# -- from the command line ------------------------------------------------------------------------


@pytest.mark.usefixtures("compiled_engine")
def test_a_campaign_of_trainings(tmp_path: Path) -> None:
    store = {"SQUALL_STORE": str(tmp_path)}
    done = squall("fuzz", "--groups", "--seeds", "20:22", "--json", **store)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["scenarios"], told["failures"]) == (2, [])


@pytest.mark.deep("its processes import all that trainings need")
@pytest.mark.usefixtures("compiled_engine")
def test_a_part_of_a_long_campaign(tmp_path: Path) -> None:
    (tmp_path / "campaign.toml").write_text(
        'scenarios = 3\n[parts.groups]\nfaults = "rough"\nshare = 1.0\n', encoding="utf-8"
    )
    words = [str(tmp_path / "campaign.toml"), "--store", str(tmp_path / "kept.sqlite"), "--json"]
    done = squall("campaign", *words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [(part["kind"], part["judged"]) for part in told["parts"]] == [("groups", 3)]


@pytest.mark.usefixtures("compiled_engine")
def test_a_training_is_replayed_and_exported_by_its_seed() -> None:
    done = squall("export", "groups:21")
    assert done.returncode == 0, done.stderr
    assert training_in(done.stdout) == draw_training(21)
    first, second = (squall("replay", "groups:21", "--json") for _ in range(2))
    assert first.returncode == 0, first.stdout
    assert first.stdout == second.stdout


@pytest.mark.usefixtures("compiled_engine")
def test_a_training_is_replayed_with_a_planted_bug() -> None:
    done = squall("replay", "groups:2", "--mutant", "stage-sends-twice", "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["outcome"] == "deadlock"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["replay", "groups:x"], "expected the seed of a training, as groups:7"),
        (["replay", "groups:7", "--engine", "port"], "'groups:7' is a training, expected torch"),
        (["fuzz", "--groups", "--stats"], "--stats"),
        (["fuzz", "--groups", "--cover"], "--cover"),
        (["mutants", "--groups", "--cover"], "--cover"),
        (["mutants", "--groups", "--drawn", "3"], "--groups"),
        (["mutants", "--explore", "stage-sends-twice"], "trainings are not explored"),
    ],
)
def test_bad_input(words: list[str], told: str) -> None:
    done = squall(*words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
