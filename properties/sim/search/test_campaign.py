"""Campaigns: the same verdicts for the same seeds, and nothing found is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from squall.properties.support.commands import ROOT, squall
from squall.real.autograd.container import DistAutogradContainer
from squall.sim.faults.plan import Drop, Plan
from squall.sim.scenario import Expected
from squall.sim.scenarios.failure import Failure
from squall.sim.search.campaign import Campaign, run_campaign
from squall.sim.search.corpus import corpus, corpus_for
from squall.sim.search.draw import Settings, draw
from squall.sim.search.judge import Verdict, judge_all

SEEDS = range(30)
LOSSY = Plan(messages=(Drop(types=("RREF_ACK",), nth=(1,)),))


def test_seeds_differ_in_all_that_is_drawn() -> None:
    assert len({draw(seed).work for seed in SEEDS}) > 0.9 * len(SEEDS)
    assert {draw(seed).faults.schedule.order for seed in SEEDS} == {"fifo", "random"}
    assert len({draw(seed).world.latency for seed in SEEDS}) > 3
    assert {draw(seed).world.skip_handshakes for seed in SEEDS} == {False, True}
    assert not any(draw(seed, Settings(plan=LOSSY)).world.skip_handshakes for seed in SEEDS)


def test_the_verdicts_do_not_depend_on_the_number_of_processes() -> None:
    alone = list(judge_all(SEEDS, Settings(stats=True)))
    shared = list(judge_all(SEEDS, Settings(stats=True), jobs=2))
    assert [verdict.seed for verdict in shared] == list(SEEDS)
    assert shared == alone
    assert alone[0].digest and not alone[16].digest  # the first was run twice


def test_failures_of_one_kind_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DistAutogradContainer, "_send_release_context_rpc", lambda *_: None)
    shown: list[Failure] = []

    def show(verdict: Verdict, failure: Failure | None, campaign: Campaign) -> None:
        if failure is not None:
            shown.append(failure)

    campaign = run_campaign(range(12), on_verdict=show)
    assert not campaign.ok
    failure = campaign.failures["contexts", "a context was left"]
    assert shown == list(campaign.failures.values())
    assert len(shown) < campaign.failed and 1 < failure.count <= campaign.failed
    first = replace(failure.scenario, expected=Expected())
    assert first in (*corpus().values(), draw(first.seed)), "as it was played"


def test_an_interrupted_campaign_keeps_what_it_found() -> None:
    def interrupt(verdict: Verdict, failure: Failure | None, campaign: Campaign) -> None:
        if verdict.seed == 3 and not verdict.name:
            raise KeyboardInterrupt

    campaign = run_campaign(on_verdict=interrupt)
    assert campaign.interrupted
    assert (campaign.corpus, campaign.scenarios) == (len(corpus_for(Settings())), 4)
    assert campaign.seconds > 0


def test_a_campaign_ends_when_its_time_is_up() -> None:
    campaign = run_campaign(minutes=1e-6)
    assert (campaign.corpus, campaign.scenarios) == (1, 0)
    assert not campaign.interrupted


# -- the command ----------------------------------------------------------------------------------


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    done = squall("fuzz", "--seeds", "0:12", "--stats", SQUALL_STORE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "12 scenarios, every property holds" in done.stdout
    assert "rpc_sync" in done.stdout
    assert done.stderr.startswith("seen: ") and done.stderr.count("\n") == 1


def test_the_object_has_the_documented_keys() -> None:
    done = squall("fuzz", "--seeds", "100:104", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    documented = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    assert all(f"| `{key}` |" in documented for key in told)
    assert told["outcome"] == "ok"
    assert (told["first_seed"], told["scenarios"], told["failures"]) == (100, 4, [])
    assert told["features"]["rpc_sync"] > 0


def test_properties_are_listed() -> None:
    told = json.loads(squall("properties", "--json").stdout)
    assert [each["name"] for each in told["properties"]][:2] == ["dependencies", "execution"]
    assert "networkx" in told["properties"][0]["description"]
    assert "joint_graph" in squall("properties").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "5:2"], "--seeds: expected two integers A:B with 0 <= A < B"),
        (["--seeds", "1:2:3"], "--seeds: expected two integers A:B"),
        (["--seeds", "x"], "got 'x'"),
        (["--minutes", "nan"], "--minutes: expected a positive number, got 'nan'"),
        (["--minutes", "1", "--seeds", "0:2"], "expected either --seeds or --minutes, got both"),
        (["--jobs", "0"], "--jobs: expected an integer from 1 to 256, got '0'"),
        (["--device", "tpu"], "--device: expected cpu or cuda or stand-in, got 'tpu'"),
        (["--engine", "diesel"], "--engine: expected port or torch, got 'diesel'"),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str) -> None:
    done = squall("fuzz", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
