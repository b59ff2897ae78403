"""Faults drawn for each seed: what is drawn, what must hold, and what campaigns say of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from squall.model.coverage.sometimes import SITUATIONS
from squall.model.program.check import check_program
from squall.model.program.variants import under_faults
from squall.properties.support.commands import squall
from squall.sim.cli.main import main
from squall.sim.faults.file import check_plan, dump_plan
from squall.sim.faults.plan import KINDS, Drop, Plan, PoolSize
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.campaign import run_campaign
from squall.sim.search.draw import (
    _SLOW_LATENCY,
    MILD,
    PROFILES,
    Settings,
    _threads_needed,
    draw,
    draw_world_of_script,
    expanded,
)
from squall.sim.search.judge import judge, judge_all

SEEDS = range(150)


@pytest.mark.parametrize("profile", PROFILES)
def test_worlds_are_valid_and_their_own(profile: str) -> None:
    worlds = [draw(seed, Settings(profile)) for seed in SEEDS]
    for world in worlds:
        check_program(world.program)
        check_plan(world.faults, workers=world.program.workers)
        assert world.faults
        assert world.program.workers > 1
    assert worlds == [draw(seed, Settings(profile)) for seed in SEEDS]
    assert len({dump_plan(world.faults) for world in worlds}) > 0.9 * len(worlds)


def test_every_kind_is_drawn() -> None:
    kinds = Counter(
        item.kind for seed in SEEDS for _, _, item in draw(seed, Settings("storm")).faults.items()
    )
    assert set(kinds) == set(KINDS) - {"restart"}
    orders = {draw(seed, Settings("rough")).faults.schedule.order for seed in SEEDS}
    assert orders == {"fifo", "random", "pct"}


def test_some_worlds_are_about_what_others_keep_of_a_process_that_ends() -> None:
    """Three workers, of whom one ends as others have something of it, and begins again."""
    for profile, share in (("mild", 0), ("rough", 0.2), ("storm", 0.2)):
        worlds = [draw(seed, Settings(profile)) for seed in SEEDS]
        about = [world for world in worlds if world.faults.heal_s is None]
        assert share / 2 <= len(about) / len(worlds) <= share * 2
        for world in about:
            assert {item.kind for _, _, item in world.faults.items()} <= {"crash", "delay"}
            assert len({item.worker for item in world.faults.workers}) == 1
            assert world.program.workers == 3
            assert all(step.retry for _, _, step in world.program.steps)


def test_scripts_meet_slow_networks_and_busy_processors_where_nothing_goes_wrong() -> None:
    worlds = Counter(
        (world.latency == _SLOW_LATENCY, world.faults.schedule.order == "busy")
        for world in (draw_world_of_script(seed, 3, None) for seed in range(100))
    )
    assert min(worlds.values()) > 5 and len(worlds) == 4
    assert not any(len(draw_world_of_script(seed, 3, None).faults) for seed in range(100))


def test_pools_of_one_thread_where_no_function_waits_in_its_thread() -> None:
    """Else a value would never be made: a limit of PyTorch's that is documented."""
    sizes = Counter(
        (item.threads, _threads_needed(world.program))
        for world in (draw(seed, Settings("storm")) for seed in range(500))
        for item in world.faults.inner
        if isinstance(item, PoolSize)
    )
    assert {threads for threads, needed in sizes if needed == 1} == {1, 2, 3}
    assert all(threads >= needed for threads, needed in sizes)
    assert any(needed > 3 for _, needed in sizes)


def test_mild_faults_are_made_good() -> None:
    """Nothing of them ends a worker, raises, or loses a message that is not sent again."""
    assert "crash" not in MILD and "drop" not in MILD
    for seed in SEEDS:
        plan = draw(seed, Settings("mild")).faults
        assert {item.kind for _, _, item in plan.items()}.isdisjoint(
            {"crash", "shutdown", "raise", "allocation", "corrupt", "loss", "pool_size"}
        )
        for item in plan.messages:
            if isinstance(item, Drop):
                assert all(name.startswith(("RREF_", "CLEANUP_")) for name in item.types)


def test_a_seed_draws_the_same_in_another_process() -> None:
    code = (
        "from squall.sim.search.draw import Settings, draw; from squall.sim.faults.file import dump_plan;"
        "print([dump_plan(draw(seed, Settings('storm')).faults) for seed in range(5)])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(seen) == 1 and len(seen.pop()) > 100


@pytest.mark.parametrize("profile", PROFILES)
def test_every_property_holds(profile: str) -> None:
    verdicts = list(judge_all(range(20), Settings(profile)))
    assert [verdict for verdict in verdicts if not verdict.ok] == []
    # The first one was run twice.
    assert verdicts[0].digest


def test_situations_are_reached_and_counted() -> None:
    campaign = run_campaign(range(140), Settings("storm", stats=True))
    assert campaign.ok
    counts = campaign.sometimes_counts()
    assert list(counts) == list(SITUATIONS)
    reached = [name for name, count in counts.items() if count]
    assert len(reached) > 0.6 * len(SITUATIONS)
    assert {"a response after its timeout", "a crash of an owner", "a pass that failed"} <= {
        *reached
    }
    faults = campaign.fault_counts()
    assert set(faults) == set(KINDS)
    assert faults["crash"] and faults["drop"] and faults["duplicate"]


def test_one_plan_for_every_program() -> None:
    plan = Plan(messages=(Drop(types=("RREF_USER_DELETE",), src=7, dst=0, nth=(1,)),))
    given = Settings(plan=plan)
    assert draw(3, given).program == under_faults(draw(3).program)
    small = next(seed for seed in SEEDS if draw(seed).program.workers < 8)
    assert len(draw(small, given).faults) == 0  # there is no such worker
    with campaign_settings():
        assert judge(small, given).ok


def test_without_faults_nothing_of_this_happens() -> None:
    with campaign_settings():
        verdict = judge(1, Settings(stats=True))
        run = play(draw(1))
    assert verdict.faults == ()
    assert run.outcomes.recovery is None


def test_everything_that_was_drawn_is_told() -> None:
    scenario = draw(19, Settings("storm"))
    table = dict(expanded(scenario))
    assert {"latency", "call timeout", "order", "faults end", "workers"} <= table.keys()
    assert sum("[" in name for name in table) == len(scenario.faults)
    for_people = [text for _, text in expanded(scenario, {})]
    assert for_people[-len(scenario.faults) :] == [
        item.told({}) for _, _, item in scenario.faults.items()
    ]


# -- the command ----------------------------------------------------------------------------------


def test_fuzz_tells_situations_and_faults(tmp_path: Path) -> None:
    words = ("fuzz", "--seeds", "0:3", "--faults", "rough", "--stats", "--json")
    told = squall(*words, SQUALL_STORE=str(tmp_path))
    assert told.returncode == 0, told.stderr
    report = json.loads(told.stdout)
    assert set(report["sometimes"]) == set(SITUATIONS)
    assert set(report["faults"]) == set(KINDS)
    assert report["profile"] == "rough"


def test_a_situation_that_is_never_reached_can_fail(tmp_path: Path) -> None:
    words = ("fuzz", "--seeds", "0:1", "--faults", "mild", "--require-sometimes", "--stats")
    told = squall(*words, SQUALL_STORE=str(tmp_path))
    assert told.returncode == 1
    assert "never reached: " in told.stderr
    assert "a crash during a pass" in told.stderr
    assert "a fetch before its creation" in told.stdout
    assert "latency_spike" in told.stdout


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "messages": [{"kind": "lose"}]}', encoding="utf-8")
    for told, words in {
        "expected mild, rough, storm or a file with a plan": ("--faults", "wild"),
        "--require-sometimes": ("--require-sometimes",),
        "messages[0].kind": ("--faults", str(file)),
    }.items():
        with pytest.raises(SystemExit) as left:
            main(["fuzz", "--seeds", "0:1", *words])
        assert left.value.code == 2
        assert told in capsys.readouterr().err
