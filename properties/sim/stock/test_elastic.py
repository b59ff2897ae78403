"""torchrun's agents (torch.distributed.elastic) in the simulation: they watch their ranks and start them again."""

from __future__ import annotations

import io
import json
import textwrap
from pathlib import Path

import pytest

from squall.model.events.run import Run
from squall.properties.support.commands import squall
from squall.properties.support.paths import ROOT
from squall.properties.support.scripts import run_file
from squall.sim.faults.file import dump_plan
from squall.sim.faults.plan import NO_FAULTS, Crash, Plan

pytestmark = pytest.mark.usefixtures("compiled_engine")

CRASH = Plan(workers=(Crash(worker=1, at_s=2.5),))
#: two agents, of a rank each, meet at a store
AGENT = """
    import os, sys, time, torch, torch.distributed as dist
    from torch.distributed.run import main

    if len(sys.argv) > 1:
        words = "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint localhost:29411 --rdzv-id job --max-restarts"
        main([*words.split(), sys.argv[1], __file__])
    else:
        dist.init_process_group("gloo")
        for _ in range(5):
            values = torch.ones(1)
            dist.all_reduce(values)
            time.sleep(1)
        print(dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"], values.item(), flush=True)
"""


def played(script: Path, *, plan: Plan) -> tuple[Run, list[str]]:
    out = io.StringIO()
    run = run_file(script, engine="torch", faults=plan, stdout=out)
    return run, sorted(out.getvalue().splitlines())


def test_training_goes_on_from_a_checkpoint_after_a_crash() -> None:
    example = ROOT / "examples" / "elastic.py"
    whole, said = played(example, plan=NO_FAULTS)
    crashed, after = played(example, plan=CRASH)
    assert whole.ok and crashed.ok and crashed.faults == {"crash": 1}
    assert len(said) == 2 and after == [line.replace("restarts 0", "restarts 1") for line in said]
    assert crashed.digest == played(example, plan=CRASH)[0].digest != whole.digest


@pytest.mark.parametrize("restarts", ["0", "2"])
def test_two_agents_restart_together_as_often_as_they_may(tmp_path: Path, restarts: str) -> None:
    script = tmp_path / "agent.py"
    script.write_text(textwrap.dedent(AGENT), encoding="utf-8")
    plan = tmp_path / "plan.json"
    plan.write_text(dump_plan(CRASH), encoding="utf-8")
    each = (str(script), restarts)
    options = ("--engine", "torch", "--json", "--faults", str(plan))
    done = squall("run", *options, "--", *each, ":", *each)
    run = json.loads(done.stdout)
    if restarts == "2":
        assert run["outcome"] == "ok" and {"0 1 2.0", "1 1 2.0"} <= {*done.stderr.splitlines()}
    else:
        assert run["outcome"] == "error"
        assert "ChildFailedError" in [error["type"] for error in run["errors"]]
        assert "exitcode  : -9" in "".join(error["message"] for error in run["errors"])


def test_a_signal_reaches_a_simulated_child_and_no_real_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import os, signal, subprocess, sys

            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            os.kill(child.pid, 0)
            os.killpg(os.getpgid(child.pid), signal.SIGTERM)
            print(child.wait(), flush=True)
            try:
                os.kill(1, 0)
            except ProcessLookupError:
                print("nobody", flush=True)
        """),
        encoding="utf-8",
    )
    run, said = played(script, plan=NO_FAULTS)
    assert said == ["-15", "nobody"] and run.errors == []


IN_A_ROW = """
    import sys, torch, torch.distributed as dist
    from torch.distributed.run import main

    if len(sys.argv) > 1:
        main(["--nproc-per-node", "2", __file__])
    else:
        for _ in range(2):
            dist.init_process_group("gloo")
            dist.all_reduce(torch.ones(1))
            dist.destroy_process_group()
"""


def test_a_second_group_may_find_what_the_first_has_written_to_the_agents_store(
    tmp_path: Path,
) -> None:
    """On stock PyTorch, too, chance decides (pytorch#55967)."""
    script = tmp_path / "in_a_row.py"
    script.write_text(textwrap.dedent(IN_A_ROW), encoding="utf-8")
    out = io.StringIO()
    runs = [
        run_file(script, "agent", engine="torch", seed=seed, stdout=out, stderr=out)
        for seed in range(8)
    ]
    assert {run.ok for run in runs} == {True, False}
    texts = [error.message for run in runs if not run.ok for error in run.errors]
    assert any("Connection refused" in text for text in texts), texts
