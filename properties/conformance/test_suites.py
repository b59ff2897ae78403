"""The machinery around PyTorch's own tests: what is collected, and what a verdict means."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from squall.properties.conformance.on_stand_in import rewritten
from squall.properties.conformance.pool import Player
from squall.properties.conformance.run import judge, run
from squall.properties.conformance.suites import SUITES, collect
from squall.properties.conformance.table import (
    NOT_APPLICABLE,
    NOT_APPLICABLE_STAND_IN,
    NOT_APPLICABLE_TORCH,
)
from squall.properties.conformance.tests import Played, Test
from squall.properties.support.commands import squall
from squall.sim.names import Device, EngineName
from squall.sim.scripts.compat.program import ScriptFiles


def test_every_test_of_the_wheel_is_collected_once() -> None:
    tests = collect()
    assert len({test.id for test in tests}) == len(tests)
    counts = Counter(test.suite for test in tests)
    assert list(counts) == list(SUITES)
    # As many as torch's own generate_tests makes of these classes.
    assert counts == {
        "dist_autograd": 94,
        "dist_optimizer": 4,
        "faulty_agent": 28,
        "examples": 2,
        "rpc": 215,
        "tensorpipe_rpc": 39,
    }


def test_those_of_process_groups_are_collected_for_the_compiled_engine() -> None:
    tests = collect(["groups"], engine="torch")
    assert len(tests) > 250 and {test.owner.of_groups for test in tests} == {True}
    assert "DistributedTest.test_ddp_uneven_inputs" in {test.id for test in tests}
    assert not {test.id for test in tests} & {test.id for test in collect()}
    done = squall("conformance", "groups")
    assert done.returncode == 2 and "expected --engine torch" in done.stderr


def test_a_pattern_and_suites_choose() -> None:
    chosen = collect(["rpc", "dist_autograd"], "NESTED_RPC")
    assert {test.suite for test in chosen} == {"rpc", "dist_autograd"}
    assert all("nested_rpc" in test.method for test in chosen)


def test_a_whole_id_chooses_that_test_alone() -> None:
    assert [test.id for test in collect(pattern="rpctest.test_add")] == ["RpcTest.test_add"]
    assert len(collect(pattern="rpctest.test_ad")) > 1


def test_nothing_of_the_users_is_found_by_a_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "expecttest.py").write_text("raise SystemExit('mine')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for program, found in (
        (ScriptFiles(search_path=sys.path), True),
        (ScriptFiles.of_libraries(), False),
    ):
        assert (program.find("expecttest", program.search_path) is not None) is found


def test_playing_leaves_the_settings_of_whoever_asks_alone() -> None:
    before, modules = settings.default, set(sys.modules)
    with Player() as player:
        for test in collect(["dist_optimizer"], "none_grads") * 2:
            assert judge(test, player.play(test)).verdict == "passed"
    assert settings.default is before
    assert "torch.testing._internal.common_utils" not in set(sys.modules) - modules


@pytest.mark.parametrize(
    ("table", "device", "engine"),
    [
        (NOT_APPLICABLE, "cpu", "port"),
        (NOT_APPLICABLE_TORCH, "cpu", "torch"),
        (NOT_APPLICABLE_STAND_IN, "stand-in", "port"),
    ],
)
def test_the_table_names_tests_that_exist_and_says_why(
    table: dict[str, str], device: Device, engine: EngineName
) -> None:
    ids = {test.id for test in collect(device=device, engine=engine)}
    for name, reason in table.items():
        assert name in ids
        assert reason and reason[0].islower() and not reason.endswith(".")


def test_the_tests_of_cuda_are_collected_for_a_device() -> None:
    counts = Counter(test.suite for test in collect(device="stand-in"))
    assert counts == {"cuda_dist_autograd": 6, "cuda_rpc": 88}
    assert not {test.id for test in collect(device="cuda")} & {test.id for test in collect()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        "TensorPipeAgentCudaRpcTest.test_async_execution_nested_with_cuda_future",
        "TensorPipeAgentCudaRpcTest.test_cuda_future_device_not_cuda",
        "TensorPipeAgentCudaRpcTest.test_custom_stream_nested_multi",
        "TensorPipeAgentCudaRpcTest.test_device_maps_missing_config_remote_response",
        "TensorPipeAgentCudaRpcTest.test_device_maps_wrong_worker_name",
        "TensorPipeAgentCudaRpcTest.test_rref_to_here_synchronization4",
    ],
)
def test_a_test_of_cuda_passes_on_the_stand_in(name: str) -> None:
    (test,) = collect(pattern=name, device="stand-in")
    with Player() as player:
        result = judge(test, player.play(test), NOT_APPLICABLE_STAND_IN)
    assert (result.verdict, result.why) == ("passed", "")


def test_those_that_compare_with_torch_s_own_engine_pass_in_a_fresh_process() -> None:
    """It has to learn of the device before its first pass, and that of this process is long ago."""
    done = squall("conformance", "--device", "stand-in", "-k", "test_gpu_", "--json", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tests"] == {
        f"CudaDistAutogradTest.test_gpu_{name}": "passed"
        for name in ("simple", "to_cpu_continuation", "to_cpu_continuation_gpu_root")
    }


def test_a_race_in_a_test_of_cuda_is_seen() -> None:
    """On CUDA it passes: nobody is as late as that."""
    (test,) = collect(pattern="test_cuda_future_value_on_bad_device", device="stand-in")
    with Player() as player:
        played = player.play(test)
    assert played.outcome == "failed"
    assert "two kernels in no order: zero_ on stream 0 of device 0" in played.why


ON_TORCH = {
    "dist_autograd": 94, "dist_optimizer": 4, "faulty_agent": 28, "examples": 2, "rpc": 215,
    "tensorpipe_rpc": 38, "groups": 126,
}  # fmt: skip


@pytest.mark.deep("all that PyTorch ships for a suite, a process a rank: minutes")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("suite", ON_TORCH)
def test_a_suite_passes_on_the_compiled_engine(suite: str) -> None:
    results = list(run(collect([suite], engine="torch"), engine="torch"))
    assert {each.test.id: each.why for each in results if each.verdict == "failed"} == {}
    passed = sum(each.verdict == "passed" for each in results)
    assert passed == ON_TORCH[suite] or torch.__version__.partition("+")[0] != "2.13.0"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        "DistAutogradTest.test_trainer_ps_torchscript_functions",
        "DistributedTest.test_all_reduce_sum_async",
        "DistributedTest.test_ddp_create_graph",
        "FaultyAgentRpcTest.test_remote_message_dropped_pickle_to_self",
        "JitFaultyAgentRpcTest.test_timeout_in_torchscript_function",
        "RpcTest.test_duplicate_name",
        "RpcTest.test_pg_init_no_rpc_init",
        "RpcTest.test_profiler_with_sync_rpc_builtin",
        "RpcTest.test_register_rpc_backend_and_set_and_start_rpc_backend",
        "TensorPipeAgentRpcTest.test_dynamic_rpc_existing_rank_can_communicate_with_new_rank",
        "TensorPipeAgentRpcTest.test_dynamic_and_static_init_rpc_together",
        "TensorPipeAgentRpcTest.test_infer_backend_from_options",
    ],
)
def test_a_test_passes_on_the_compiled_engine(name: str) -> None:
    (result,) = run(collect(pattern=name, engine="torch"), engine="torch")
    assert (result.verdict, result.why) == ("passed", "")


def test_what_the_stand_in_takes_the_place_of() -> None:
    source = """
        x = torch.ones(2, device="cuda:0").cuda(1).cuda()
        if x.is_cuda and y.device.type == 'cuda': torch.cuda._sleep(1)
        self._test_cuda(f"{worker}/cuda:{i}", r"on device cuda:1 and cuda_x")
    """
    assert (
        rewritten(source)
        == """
        x = torch.ones(2, device="standin:0").to("standin:1").to("standin")
        if (x.device.type == "standin") and y.device.type == 'standin': torch.standin._sleep(1)
        self._test_cuda(f"{worker}/standin:{i}", r"on device standin:1 and cuda_x")
    """
    )


@pytest.fixture
def excused(monkeypatch: pytest.MonkeyPatch) -> Test:
    test = collect()[0]
    monkeypatch.setattr(
        "squall.properties.conformance.run.NOT_APPLICABLE", {test.id: "needs a violin"}
    )
    return test


def test_the_table_excuses_what_fails_and_what_skips_itself(excused: Test) -> None:
    for outcome in ("failed", "skipped"):
        result = judge(excused, Played(outcome, "no violin here"))
        assert (result.verdict, result.why) == ("not_applicable", "needs a violin")


def test_a_test_of_the_table_that_passes_is_a_failure(excused: Test) -> None:
    result = judge(excused, Played("passed"))
    assert result.verdict == "failed"
    assert "needs a violin" in result.why


def test_a_test_that_skips_itself_must_stand_in_the_table() -> None:
    result = judge(collect()[-1], Played("skipped", "Need at least 2 CUDA devices"))
    assert result.verdict == "failed"
    assert "Need at least 2 CUDA devices" in result.why


def test_the_command_reports_each_test() -> None:
    done = squall("conformance", "dist_optimizer", "-k", "none_grads", "--json", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["tests"] == {"DistOptimizerTest.test_dist_optim_none_grads": "passed"}
    suite = report["suites"]["dist_optimizer"]
    assert (suite["passed"], suite["failed"], suite["not_applicable"]) == (1, 0, 0)
    assert suite["seconds"] > 0
    assert "1/1" in done.stderr


def test_the_command_says_which_suites_there_are() -> None:
    done = squall("conformance", "violin", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["field"] == "SUITE"
    assert "dist_autograd" in done.stderr


def test_the_command_keeps_what_it_found_until_it_is_interrupted() -> None:
    command = [sys.executable, "-m", "squall", "conformance", "rpc", "--json", "--jobs", "1"]
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stderr is not None
    assert any("1/215" in line for line in running.stderr)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    report = json.loads(out)
    assert report["outcome"] == "interrupted"
    assert 1 <= len(report["tests"]) < 215
    assert set(report["tests"].values()) == {"passed"}
