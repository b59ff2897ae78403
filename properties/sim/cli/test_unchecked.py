"""A run in which there was nothing to check is not called good."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from squall.model.events.run import NOT_CHECKED, Run
from squall.model.one_process.reference import GradientSummary
from squall.properties.conformance.report import Conformance
from squall.properties.conformance.tests import Result, Test, TestClass
from squall.properties.sim.cli.test_run import HELLO, TWO_WORKERS, write
from squall.properties.support.commands import squall
from squall.properties.support.scripts import script_scenario
from squall.sim.cli.exits import FAILED, UNCHECKED, exit_code
from squall.sim.cli.reports.first_difference import nothing_compared
from squall.sim.cli.reports.mutants import nothing_tried
from squall.sim.cli.reports.replay import Replayed, replay_json
from squall.sim.scenarios.replay import replay
from squall.sim.search.campaign import Campaign

GROUP_ONLY = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
values = torch.ones(2)
dist.all_reduce(values)
dist.send(values, 1) if dist.get_rank() == 0 else dist.recv(values, 0)
dist.destroy_process_group()
"""


def summary(passes: int, compared: int, *why: str) -> GradientSummary:
    return GradientSummary(passes, compared, 0, 0.0, list(why), [])


def test_a_script_without_workers_is_not_checked(tmp_path: Path) -> None:
    script = write(tmp_path / "hello.py", HELLO)
    ended = squall("run", script, "--json")
    told = json.loads(ended.stdout)
    assert ended.returncode == UNCHECKED
    assert (told["outcome"], told["checked"]) == (NOT_CHECKED, False)
    assert told["unchecked"] == "0 workers: no process has joined an RPC group"
    assert told["replay"] is None, "it is no failure, so it is not kept as one"
    shown = squall("run", script, "--allow-unchecked")
    assert shown.returncode == 0
    assert "outcome        not checked" in shown.stdout
    assert told["unchecked"] in shown.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["port", "torch"])
def test_operations_of_process_groups_are_checked_to_end(
    tmp_path: Path, engine: str, compiled_engine: None
) -> None:
    script = write(tmp_path / "groups.py", GROUP_ONLY)
    ended = squall("run", script, "--workers", "2", "--engine", engine, "--json")
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["outcome"], told["workers"]) == (0, "ok", 2)
    assert told["operations"] == 4


def test_a_group_in_which_nobody_calls_is_not_checked(tmp_path: Path) -> None:
    alone = write(tmp_path / "alone.py", TWO_WORKERS.replace("(2,), nprocs=2", "(1,), nprocs=1"))
    ended = squall("run", alone, "--json")
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["workers"]) == (UNCHECKED, 1)
    assert told["unchecked"] == "no message crossed the network"


def test_what_fails_is_not_called_unchecked(tmp_path: Path) -> None:
    ended = squall("run", write(tmp_path / "raises.py", "1 / 0"), "--json", "--allow-unchecked")
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["outcome"]) == (FAILED, "error")


@pytest.mark.parametrize(
    ("gradients", "why"),
    [
        (summary(50, 0, "context 3, pass 1: hooks"), "0 of 50 backward passes compared: context 3"),
        (summary(1, 0), "0 of 1 backward pass compared"),
        (summary(50, 1), None),
        (summary(0, 0), "no message crossed the network"),
        (None, "no message crossed the network"),
    ],
)
def test_gradients_that_were_not_compared(gradients: GradientSummary | None, why: str) -> None:
    run = Run(script="train.py", workers=2, gradients=gradients)
    if why is None:
        assert (run.unchecked, run.outcome, run.ok) == (None, "ok", True)
    else:
        assert run.unchecked is not None and run.unchecked.startswith(why)
        assert (run.outcome, run.ok) == (NOT_CHECKED, False)


def test_gradients_of_which_none_was_compared_are_not_equal() -> None:
    assert (summary(0, 0).equal, str(summary(0, 0))) == (None, "nothing to compare")
    assert (summary(2, 0).equal, str(summary(2, 0))) == (None, "unknown")
    assert (summary(2, 2).equal, str(summary(2, 2))) == (True, "equal to one process")
    differs = replace(summary(2, 2), mismatches=["worker 1"])
    assert (differs.equal, str(differs)) == (False, "differ")


@pytest.mark.parametrize("command", ["fuzz", "why"])
def test_many_runs_in_which_nothing_is_checked_say_so(tmp_path: Path, command: str) -> None:
    script = write(tmp_path / "alone.py", TWO_WORKERS.replace("(2,), nprocs=2", "(1,), nprocs=1"))
    seeds = ["--seeds", "2"] if command == "fuzz" else []
    ended = squall(command, script, *seeds)
    assert ended.returncode == UNCHECKED
    assert ended.stdout.endswith("runs, not checked: no message crossed the network\n")
    told = squall(command, script, *seeds, "--json")
    assert told.returncode == UNCHECKED
    said = {key: json.loads(told.stdout)[key] for key in ("checked", "unchecked")}
    assert said == {"checked": False, "unchecked": "no message crossed the network"}
    if command == "fuzz":
        assert squall(command, script, *seeds, "--allow-unchecked").returncode == 0


def test_other_reports_without_anything_in_them() -> None:
    assert Campaign(corpus=3).unchecked == "0 scenarios of seeds were judged, 3 stored ones were"
    assert Campaign(scenarios=1).unchecked is None
    test = Test("rpc", TestClass("rpc", "RpcTest", ("", "")), "test_add")
    left = Conformance("port", [Result(test, "not_applicable", 0.0, "why", "")], 0.0, 1)
    assert (left.outcome, left.unchecked) == (NOT_CHECKED, "0 of 1 tests could be played")
    played = Conformance("port", [Result(test, "passed", 0.0, "", "")], 0.0, 1)
    assert (played.outcome, played.unchecked) == ("ok", None)
    assert nothing_tried([]) == "no scenario came to its end with a planted bug"
    assert nothing_compared(Run(), Run()) == "neither run has an event"


def test_the_exit_code_of_a_failure_is_its_own() -> None:
    assert exit_code(good=True) == 0
    assert exit_code(good=True, unchecked="no message crossed the network") == UNCHECKED
    assert exit_code(good=True, unchecked="no message crossed the network", allowed=True) == 0
    assert exit_code(good=False, unchecked="0 workers", allowed=True) == FAILED


def test_a_run_again_says_so_too(tmp_path: Path) -> None:
    scenario = script_scenario(Path(write(tmp_path / "hello.py", HELLO)))
    run = replay(scenario)
    again = Replayed(scenario, run)
    assert again.good, "nothing is wrong with it"
    told = json.loads(replay_json(again))
    assert (told["outcome"], told["checked"]) == (NOT_CHECKED, False)
    assert nothing_compared(run, run) is None, "both have events, which are the same"
