"""PyTorch's compiled engine on the simulated network: that it runs, the same each time, and that
nothing is left of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from squall.model.events.run import Run
from squall.model.one_process.interpreter import interpret
from squall.model.one_process.outcome import differences
from squall.model.program.program import Backward, Input, Leaf, Op, Program, Step, Trainer
from squall.model.program.stories import rules_on_torch
from squall.properties.findings.finding import HERE as FINDINGS
from squall.properties.matrix.rows import TORCH
from squall.properties.support.commands import squall
from squall.properties.support.paths import ROOT
from squall.properties.support.saved_files import numbers_of, saved_files
from squall.properties.support.waiting import PATIENCE_S, wait_for
from squall.sim.diff import rules as native_rules
from squall.sim.diff.compare import compare_engines
from squall.sim.diff.quirks import QUIRKS
from squall.sim.faults.plan import Crash, Plan
from squall.sim.scenario import Scenario
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scenarios.file import load_scenario
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.saved_scenarios import replayed
from squall.sim.stock.program import run_native
from squall.sim.stock.shared import PROGRAMS as MODULES
from squall.sim.stock.shared import shared_fork_server


@pytest.fixture(scope="module", autouse=True)
def _fork_server(compiled_engine: None) -> Iterator[None]:
    with campaign_settings():
        yield


def training(workers: int = 3) -> Program:
    """A step through every worker: a call, a nested one, a reference and an operator."""
    leaves = tuple(Leaf(owner=n, shape=(2,), seed=n) for n in range(workers))
    ops = (
        Op(kind="scale", inputs=(Input(1),), worker=1, call="sync", factor=2),
        Op(kind="mul", inputs=(Input(1), Input(2)), worker=2, call="remote"),
        Op(kind="add", inputs=(Input(1, how="rref"), Input(4)), worker=1, call="sync", via=(2,)),
        Op(kind="total", inputs=(Input(1),), worker=0),
    )
    step = Step(ops=ops, backwards=(Backward(roots=(1,)),))
    return Program(workers=workers, leaves=leaves, trainers=(Trainer(worker=0, steps=(step,)),))


def run(program: Program, **options: object) -> Run:
    options = {"seed": 3, "latency": "lognormal:0.001:0.5", **options}
    return run_native(program, shared_fork_server(MODULES), **options)  # type: ignore[arg-type]


def test_a_training_step_on_three_workers() -> None:
    program = training()
    got = run(program)
    assert differences(program, interpret(program), got.outcomes.got) == []
    assert got.waits == [] and got.crash is None and got.processes.deaths == []
    assert all(
        table[name] == 0
        for table in got.rpc_groups.tables
        for name in ("num_owner_rrefs", "num_autograd_contexts", "num_current_backward_passes")
    )
    sent = got.cluster.trace.message_counts()
    assert sent["BACKWARD_AUTOGRAD_REQ"] >= 3 and sent["PYTHON_REMOTE_CALL"] >= 1


def test_the_same_run_each_time() -> None:
    digests = {run(training()).cluster.trace.digest() for _ in range(10)}
    assert len(digests) == 1
    assert run(training(), seed=4).cluster.trace.digest() not in digests


def test_both_engines_send_the_same_messages() -> None:
    scenario = Scenario(work=training(), seed=5)
    comparison = compare_engines(scenario)
    assert comparison.differences == []
    assert comparison.messages > 30


def test_ids_in_messages_are_decoded() -> None:
    records = run(training()).cluster.trace.records
    about = {r[4][3]: r[4][6] for r in records if r[3].name == "message_sent"}
    context, message = about["BACKWARD_AUTOGRAD_REQ"]
    assert context == 0 and message >= 0  # worker 0's first context
    assert about["CLEANUP_AUTOGRAD_CONTEXT_REQ"] == (context,)
    rref, fork = about["RREF_USER_DELETE"]
    assert rref[0] == 0 and fork[1] > rref[1] >= 0


def test_a_timeout_is_virtual() -> None:
    """A minute passes for the workers before they give up a call."""
    saved = load_scenario(FINDINGS / "context-back-from-the-dead" / "scenario.json")
    run = ENGINES["torch"].run(saved)
    assert run.ended_s >= 60


def test_a_crash_is_told_to_the_others() -> None:
    plan = Plan(workers=(Crash(worker=1, at_s=0.0005),))
    got = run(training(), plan=plan, latency="constant:0.001")
    error = got.outcomes.got.steps[0, 0].error
    assert error is not None and "worker 1" in error
    assert got.processes.deaths == [], "we killed it"
    assert got.waits == [], "the survivors shut down"
    assert len(got.rpc_groups.tables) == 3 and got.rpc_groups.tables[1] == {}, (
        "and are counted before"
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", numbers_of("torch"))
def test_it_comes_to_what_its_file_says(number: int) -> None:
    """A finding, or a scenario that was held."""
    part = saved_files()
    if part.files[number].startswith("findings/") and not torch.__version__.startswith(TORCH):
        pytest.skip(f"the findings are of torch {TORCH}: make findings TORCH={torch.__version__}")
    saved = load_scenario(part.folder / part.files[number])
    assert replayed(saved, varies=part.files[number] in part.varies).violations == ()


def test_every_rule_is_written_down() -> None:
    text = (ROOT / "docs" / "divergences.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `([\w-]+)` \|", text, re.M))
    assert told == {each.name for each in (*QUIRKS, *native_rules.RULES)} | rules_on_torch()


def test_nothing_outlives_a_coordinator_that_is_killed() -> None:
    """SIGKILL in the middle of a campaign: neither fork server nor workers are there afterwards."""
    mark = f"squall-test-{os.getpid()}"
    command = [sys.executable, "-m", "squall", "fuzz", "--engine", "torch", "--seeds", "0:1000"]
    coordinator = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "SQUALL_MARK": mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: len(_marked(mark)) >= 4, "a worker")
    finally:
        coordinator.send_signal(signal.SIGKILL)
        coordinator.wait(PATIENCE_S)
    wait_for(lambda: not _marked(mark), "an end of what the coordinator had started")


def test_a_script_prints_the_same_on_both_engines() -> None:
    said = {}
    for engine in ("port", "torch"):
        script = ROOT / "examples" / "rref_sharing.py"
        words = ["run", str(script), "--engine", engine, "--json", "--workers", "2", "--steps", "2"]
        done = squall(*words)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["outcome"] == "ok" and report["engine"] == engine
        said[engine] = re.findall(r"^step .*$", done.stderr, re.M), report["workers"]
        assert report["leaked"] == {"rrefs": 0, "contexts": 0}
    assert len(said["port"][0]) == 2
    assert said["port"] == said["torch"]


def _marked(mark: str) -> list[int]:
    """The processes that inherited the environment of the one that was marked."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            try:
                if mark.encode() in (directory / "environ").read_bytes():
                    found.append(int(directory.name))
            except OSError:
                continue
    return found


def test_without_a_compiler_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    done = squall("diff", "--seeds", "0:1", SQUALL_CACHE=str(tmp_path), PATH=str(tmp_path))
    assert done.returncode == 2
    assert "apt-get install g++" in done.stderr and "Traceback" not in done.stderr
