"""Scripts and PyTorch's own tests on PyTorch's compiled engine."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from squall.properties.support.commands import squall
from squall.properties.support.scripts import run_file, script_scenario
from squall.sim.faults.plan import Crash, Pause, Plan, Shutdown
from squall.sim.scripts.run import run_script
from squall.sim.stock.plan import kinds_left_out, left_out

pytestmark = pytest.mark.usefixtures("compiled_engine")


@pytest.mark.parametrize("name", ["parameter_server", "pipeline", "rref_sharing"])
def test_a_script_has_the_gradients_of_the_port(name: str) -> None:
    runs = []
    for engine in ("torch", "port"):
        done = squall("run", f"examples/{name}.py", "--engine", engine, "--json")
        assert done.returncode == 0, done.stderr
        runs.append(json.loads(done.stdout)["gradients"])
    for found in runs:
        assert found["compared"] == found["passes"] > 0
        assert found["mismatches"] == found["not_comparable"] == []
        assert found["max_deviation"] < 1e-12
    assert runs[0]["passes"] == runs[1]["passes"]


@pytest.mark.parametrize(
    "test",
    [
        "DistAutogradTest.test_backward_rref_nested",
        "DistAutogradTest.test_context_cleanup_no_tensors",
        # Members and others give a group back; with eight ranks; a limit of no time.
        "DistributedTest.test_destroy_group",
        "DistributedTest.test_reduce_group_max",
        "DistributedTest.test_monitored_barrier_gloo_rank_0_timeout",
    ],
)
def test_pytorchs_own_tests_run_on_its_engine(test: str) -> None:
    done = squall("conformance", "-k", test, "--engine", "torch", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["tests"] == {test: "passed"}


def test_servers_of_compiled_code_are_refused(tmp_path: Path) -> None:
    (tmp_path / "torchft").mkdir()
    (tmp_path / "torchft" / "_torchft.py").write_text(
        "class LighthouseServer: pass\n", encoding="utf-8"
    )
    (tmp_path / "script.py").write_text(
        "from torchft._torchft import LighthouseServer\nLighthouseServer(min_replicas=2)\n",
        encoding="utf-8",
    )
    run = run_file(tmp_path / "script.py", workers=1, engine="torch", stderr=io.StringIO())
    (error,) = run.errors
    assert error.message.startswith("torchft._torchft.LighthouseServer is not simulated: ")


def test_what_a_plan_asks_of_the_inside_of_a_worker_is_named() -> None:
    plan = Plan(workers=(Pause(worker=0, at_s=0.0, for_s=1.0), Shutdown(worker=1, at_s=1.0)))
    assert left_out(plan) == ["workers[1]: Shutdown"]
    assert left_out(Plan(workers=(Crash(worker=0, at_s=1.0),))) == []


def test_what_is_left_out_of_a_plan_is_in_the_report(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        '{"version": 1, "inner": [{"kind": "pool_size", "worker": 0, "threads": 1}]}',
        encoding="utf-8",
    )
    campaign = ("fuzz", "--engine", "torch", "--seeds", "0:1", "--faults")
    for words, expected in (
        ((*campaign, str(plan)), ["inner[0]: PoolSize"]),
        ((*campaign, "mild"), kinds_left_out()),
        (("replay", "1", "--engine", "torch", "--faults", str(plan)), ["inner[0]: PoolSize"]),
    ):
        done = squall(*words, "--json")
        assert set(expected) <= {*json.loads(done.stdout)["left_out"]}
        assert all(f"leaves out {line}" in done.stderr for line in expected)
    assert "workers: Shutdown" in kinds_left_out() and "inner: Raise" in kinds_left_out()


def test_a_package_that_pytorchs_tests_need_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = 'raise ModuleNotFoundError("No module named \'expecttest\'", name="expecttest")'
    (tmp_path / "expecttest.py").write_text(missing, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    one = "DistAutogradTest.test_context_cleanup_no_tensors"
    done = squall("conformance", "dist_autograd", "-k", one, "--engine", "torch")
    assert done.returncode == 2
    assert "pip install expecttest" in done.stderr and "Traceback" not in done.stderr


def test_without_a_seed_processes_draw_what_they_draw_on_the_port() -> None:
    """And so their gradients can be compared, each with that of the same pass there."""
    told, shown = [], []
    for engine in ("port", "torch"):
        words = ("run", "properties/scripts/no_seed.py", "--engine", engine, "--seed", "5")
        done = squall(*words, "--json", "--", "show")
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))
        shown.append([line for line in done.stderr.splitlines() if line.startswith("[")])
    assert len(shown[0]) == 3 and shown[0] == shown[1]
    for run in told:
        gradients = run["gradients"]
        assert gradients["compared"] == gradients["passes"] == 4
        assert gradients["mismatches"] == gradients["not_comparable"] == []


def test_another_order_of_messages_does_not_change_what_is_drawn() -> None:
    script = Path("properties/scripts/no_seed.py")
    drawn = []
    for seed, chance in ((5, None), (6, 5), (6, None)):
        out = io.StringIO()
        scenario = script_scenario(script, "show", seed=seed)
        run = run_script(scenario, stdout=out, stderr=io.StringIO(), chance_seed=chance)
        drawn.append((out.getvalue(), run.ended_s))
    assert drawn[0][0] == drawn[1][0] != drawn[2][0]
    assert drawn[0][1] != drawn[1][1] == drawn[2][1], "messages took other times"


def test_callbacks_have_run_before_one_who_waits_goes_on(tmp_path: Path) -> None:
    """Which thread is first would be chance: who waits goes on when the one that calls back is done."""
    script = tmp_path / "calls_back.py"
    script.write_text(
        """
import os
import torch
import torch.distributed.rpc as rpc

rank, values = int(os.environ["RANK"]), []
rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
for n in range(40 if rank == 0 else 0):
    future = rpc.rpc_async("w1", torch.add, args=(torch.ones(2), n))
    future.add_done_callback(lambda done: values.append(sum(done.value().tolist())))
    future.wait()
    assert len(values) == n + 1
rpc.shutdown()
""",
        encoding="utf-8",
    )
    run = run_file(script, workers=2, engine="torch", stderr=io.StringIO())
    assert (run.errors, run.waits) == ([], [])
