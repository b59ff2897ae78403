"""Fault plans for scripts: what goes wrong is the world's doing, the script is as it was."""

from __future__ import annotations

import io
import json
from pathlib import Path
from textwrap import dedent

import pytest

from squall.model.events.run import Run
from squall.properties.support.commands import squall
from squall.properties.support.scripts import run_file
from squall.real.tracing import FAULT_INJECTED
from squall.sim.cli.bad_input import BadInput
from squall.sim.cli.faults import read_faults
from squall.sim.cli.script import ScriptRun
from squall.sim.faults import plan as p
from squall.sim.faults.file import check_plan, dump_plan
from squall.sim.faults.plan import Plan, Schedule

SCRIPT = """
    import os, sys, time
    import torch
    import torch.distributed.rpc as rpc
    import torch.distributed.autograd as dist_autograd

    rank = int(os.environ["RANK"])

    def triple(x):
        return [3 * x]

    def who():
        return os.getpid()

    def step():
        x = torch.ones(1, requires_grad=True)
        try:
            with dist_autograd.context() as context_id:
                (y,) = rpc.rpc_sync("worker1", triple, args=(x,), timeout=5)
                dist_autograd.backward(context_id, [y.sum()])
                return float(dist_autograd.get_gradients(context_id)[x])
        except RuntimeError as error:
            return str(error).replace("\\n", " ")

    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
    if rank == 0:
        for _ in range(3):
            print(step(), flush=True)
            time.sleep(4)
        print(rpc.rpc_sync("worker2", who), flush=True)
    else:
        time.sleep(60)
    rpc.shutdown(graceful=False)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(dedent(SCRIPT), encoding="utf-8")
    return path


def play(script: Path, plan: Plan, **options: object) -> tuple[Run, list[str], list[str]]:
    """The report of a run, what was printed, and the kinds of faults there were."""
    out = io.StringIO()
    report = run_file(
        script, workers=3, faults=plan, stdout=out, stderr=out, check=False, latency="0.001"
    )
    kinds = [report.records[n][4][0] for n in report.of(FAULT_INJECTED)]
    return report, out.getvalue().splitlines(), kinds


def test_without_faults(script: Path) -> None:
    report, lines, kinds = play(script, Plan())
    assert lines[:3] == ["3.0"] * 3
    assert kinds == []
    assert report.ok


def test_messages_are_lost_once_the_group_stands(script: Path) -> None:
    plan = Plan(messages=(p.Drop(types=("PYTHON_CALL", "FORWARD_AUTOGRAD_REQ"), dst=1, nth=(1,)),))
    report, lines, kinds = play(script, plan)
    assert lines[0].startswith("RPCErr:1:RPC ran for more than set timeout")
    assert lines[1:3] == ["3.0", "3.0"]
    assert kinds == ["drop"]
    assert report.ok


def test_a_process_crashes_and_the_others_go_on(script: Path) -> None:
    plan = Plan(workers=(p.Crash(worker=1, at_s=2.0),))
    report, lines, kinds = play(script, plan)
    assert lines[:3] == ["3.0", "worker 1 is not connected", "worker 1 is not connected"]
    assert kinds == ["crash"]
    assert report.processes.exit_codes["rank 1"] == -9
    assert report.ok  # of those that were left to run


IN_COLLECTIVES = """
    import os, time
    import torch
    import torch.distributed as dist
    import torch.distributed.rpc as rpc

    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=3)
    try:
        while rank != 2 or WHAT == "barrier":
            time.sleep(0.01)
            dist.barrier() if WHAT == "barrier" else dist.send(torch.ones(1), dst=2)
        dist.recv(torch.ones(1), src=0)
        dist.recv(torch.ones(1), src=1)
        while True:
            dist.recv(torch.ones(1), src=1)
    except RuntimeError as error:
        print(rank, error, flush=True)
    rpc.shutdown(graceful=False)
"""


@pytest.mark.parametrize("what", ["barrier", "recv"])
def test_who_waits_in_a_collective_hears_at_once_who_has_gone(tmp_path: Path, what: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(f"WHAT = {what!r}\n" + dedent(IN_COLLECTIVES), encoding="utf-8")
    plan = Plan(workers=(p.Crash(worker=1, at_s=0.5),))
    report, lines, kinds = play(path, plan)
    told = {line[:1] for line in lines if "Connection closed by peer (rank 1 of" in line}
    assert told == ({"0", "2"} if what == "barrier" else {"2"})
    assert kinds == ["crash"] and report.ended_s < 1


def test_a_process_is_started_again_and_joins_the_group(script: Path) -> None:
    plan = Plan(workers=(p.Crash(worker=2, at_s=1.0, restart_after_s=1.0),))
    first = play(script, Plan())[1][-1]
    report, lines, kinds = play(script, plan)
    assert lines[:3] == ["3.0"] * 3
    assert lines[-1] != first  # another process answers
    assert kinds == ["crash", "restart"]
    assert report.ok


def test_a_pause_and_a_slow_start(script: Path) -> None:
    plan = Plan(
        workers=(
            p.Pause(worker=1, for_s=20.0),
            p.SlowStart(worker=2, delay_s=3.0),
        )
    )
    report, lines, kinds = play(script, plan)
    assert "timeout" in lines[0]
    assert sorted(kinds) == ["pause", "slow_start"]
    assert report.ended_s > 60.0


def test_errors_and_threads_inside(script: Path) -> None:
    plan = Plan(
        inner=(
            p.Raise(worker=1, where="udf", nth=2),
            p.Allocation(worker=0, nth=1),
            p.PoolSize(worker=1, threads=2),
            p.ClockSkew(worker=0, offset_s=9.0),
        )
    )
    _, lines, kinds = play(script, plan)
    assert "can't allocate memory for node 1 of worker 0" in lines[0]
    assert any("injected: udf 2 of worker 1 fails" in line for line in lines)
    assert "3.0" in lines
    assert set(kinds) == {"raise", "allocation", "pool_size", "clock_skew"}


def test_another_order(script: Path) -> None:
    digests = set()
    for _ in range(2):
        report, lines, _ = play(script, Plan(schedule=Schedule(order="pct")))
        assert lines[:3] == ["3.0"] * 3
        digests.add(report.digest)
    assert len(digests) == 1


# -- the option of squall run -----------------------------------------------------------------------


def asked(script: Path, faults: str, workers: int | None = 3) -> ScriptRun:
    return ScriptRun(script=script, workers=workers, seed=4, faults=read_faults(faults))


@pytest.mark.parametrize("profile", ["mild", "rough", "storm"])
def test_a_profile_draws_a_plan_from_the_seed(script: Path, profile: str) -> None:
    plan = asked(script, profile).scenario().faults
    assert plan == asked(script, profile).scenario().faults
    check_plan(plan, workers=3)
    assert plan.heal_s is not None
    assert "--faults " + profile in asked(script, profile).command()


@pytest.mark.parametrize(
    ("text", "workers", "message"),
    [
        ("hail", 3, "--faults: expected mild, rough, storm or a file with a plan, got 'hail'"),
        ("rough", None, "--faults: rough needs the number of workers: give --workers"),
        ('{"messages": [{"kind": "drop", "src": 3}]}', 3, "src: 3 is not one of the 3 workers"),
        ('{"messages": [', 3, "faults: is not JSON"),
    ],
)
def test_what_is_wrong_with_the_option_is_told(
    script: Path, text: str, workers: int | None, message: str
) -> None:
    if text.startswith("{"):
        path = script.with_name("plan.json")
        path.write_text(text, encoding="utf-8")
        text = str(path)
    with pytest.raises(BadInput) as caught:
        asked(script, text, workers).scenario()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_tells_what_happened(script: Path) -> None:
    path = script.with_name("plan.json")
    path.write_text(
        dump_plan(Plan(messages=(p.Drop(types=("PYTHON_CALL",), dst=2, nth=(1,)),))),
        encoding="utf-8",
    )
    ended = squall(
        "run", str(script), "--workers", "3", "--faults", str(path), "--no-check", "--json"
    )
    result = json.loads(ended.stdout)
    assert result["faults"] == {"drop": 1}
    assert result["outcome"] == "error"  # nobody catches what the last call raises
    assert "the connection to worker 2 was closed" in result["errors"][0]["message"]
