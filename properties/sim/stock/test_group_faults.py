"""Fault plans on the engine ``torch``: what TCP makes of them for the members of a process group."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from squall.model.events.run import Run
from squall.properties.support.commands import squall
from squall.properties.support.scripts import run_file
from squall.sim.faults.file import load_plan
from squall.sim.faults.plan import (
    ClockSkew,
    Crash,
    Loss,
    Partition,
    Pause,
    Plan,
    Reset,
    SlowCpu,
    SlowStart,
)
from squall.sim.names import EngineName
from squall.sim.scenario import Scenario, World
from squall.sim.scenarios.engines import ENGINES
from squall.sim.scripts.read_script import read_script

pytestmark = pytest.mark.usefixtures("compiled_engine")

SCRIPT = Path(__file__).parent / "groups" / "faults.py"
ON_BOTH = pytest.mark.parametrize("engine", ["port", "torch"])
GONE = "Connection closed by peer (rank {} of the process group)"


def told(
    plan: Plan, seed: int = 0, engine: EngineName = "torch"
) -> tuple[Run, dict[int, tuple[str, int]]]:
    """The run, and what each rank said: what ended it, and after how many seconds."""
    out = io.StringIO()
    run = run_file(SCRIPT, workers=3, engine=engine, seed=seed, faults=plan, stdout=out)
    assert run.conditions.left_out == []
    lines = [line.split(" ", 1) for line in out.getvalue().splitlines()]
    said = {int(rank): rest.rpartition(" ") for rank, rest in lines}
    return run, {rank: (text, int(seconds)) for rank, (text, _, seconds) in said.items()}


@ON_BOTH
def test_what_is_lost_is_sent_again_later(engine: EngineName) -> None:
    plan = Plan(links=(Loss(probability=0.1, id=1),))
    run, said = told(plan, engine=engine)
    assert run.ok and {text for text, _ in said.values()} == {"all"}
    assert run.faults["loss"] > 3 and min(seconds for _, seconds in said.values()) > 2
    assert run.messages["SEND"] >= 40 and run.messages["COLLECTIVE"] > 120
    assert told(plan, 0, engine)[0].digest == run.digest != told(plan, 1, engine)[0].digest


@ON_BOTH
def test_a_partition_is_silence_until_it_ends(engine: EngineName) -> None:
    plan = Plan(partitions=(Partition(groups=((0,), (1, 2)), from_s=1, until_s=5),))
    run, said = told(plan, engine=engine)
    assert run.ok and {text for text, _ in said.values()} == {"all"}
    assert all(6 <= seconds <= 10 for _, seconds in said.values())


def test_a_partition_that_does_not_end_is_silence_until_the_limit_of_the_group() -> None:
    _, said = told(Plan(partitions=(Partition(groups=((0,), (1, 2)), from_s=1),)))
    assert "Timed out waiting 60000ms" in said[0][0] and 60 <= said[0][1] <= 62


@ON_BOTH
@pytest.mark.parametrize("silent", [False, True])
def test_the_survivors_of_a_crash_learn_of_it(silent: bool, engine: EngineName) -> None:
    plan = Plan(workers=(Crash(worker=1, at_s=1.0, silent=silent),))
    run, said = told(plan, engine=engine)
    assert run.ok and {*said} == {0, 2}
    expected = ("Timed out waiting 60000ms", 61) if silent else (GONE.format(1), 1)
    for text, seconds in said.values():
        assert expected[0] in text and seconds == expected[1]
    assert run.process_groups.stall is not None and "rank 1 has ended" in str(
        run.process_groups.stall.lines
    )


@ON_BOTH
def test_a_loop_of_the_scripts_own_goes_on_without_who_is_lost(engine: EngineName) -> None:
    plan, out = Plan(workers=(Crash(worker=2, at_s=3.2),)), io.StringIO()
    script = SCRIPT.with_name("own_restart.py")
    run = run_file(script, workers=3, engine=engine, faults=plan, stdout=out)
    assert run.ok and run.workers == 3 and run.faults == {"crash": 1}, out.getvalue()
    # Seven steps with the mean of 1, 2 and 3, three with that of 1 and 2
    for rank in (0, 1):
        assert f"rank {rank}: rank 2 has gone at step 7" in out.getvalue()
        assert f"rank {rank}: generation 2 with [0, 1] from step 7" in out.getvalue()
        assert f"rank {rank}: done [-1.85" in out.getvalue()


def test_a_connection_that_is_reset_is_lost_at_both_ends() -> None:
    plan = Plan(messages=(Reset(types=("COLLECTIVE",), src=0, dst=1, nth=(5,)),))
    _, said = told(plan)
    assert (said[0][0], said[1][0]) == (GONE.format(1), GONE.format(0))


def test_a_member_that_stands_still_holds_up_the_others() -> None:
    run, said = told(Plan(workers=(Pause(worker=1, at_s=1.0, for_s=7.0),)))
    assert run.ok and {seconds for _, seconds in said.values()} == {9}


def test_a_slow_processor_and_a_wrong_clock(tmp_path: Path, engine: EngineName) -> None:
    """What a rank computes takes it longer, and its limits come when its clock says so."""
    script, out = tmp_path / "script.py", io.StringIO()
    script.write_text(
        "import os, time, torch, torch.distributed as dist\n"
        "import torch.distributed.rpc as rpc\n"
        "rank = int(os.environ['RANK'])\n"
        "rpc.init_rpc(f'w{rank}', rank=rank, world_size=2)\n"
        "began_s = time.time()\n"
        "a = torch.ones(2).add(1)\n"
        "computed_s = time.time() - began_s\n"
        "time.sleep(10)\n"
        "print(rank, round(computed_s, 1), round(time.time() - began_s), flush=True)\n"
        "rpc.shutdown()\n"
        "print(rank, 'ended', flush=True)\n",
        encoding="utf-8",
    )
    work = replace(read_script(script, (), workers=2), compute="add=100ms")
    slow = Plan(workers=(SlowCpu(worker=1, factor=20.0),))
    fast = Plan(inner=(ClockSkew(worker=1, rate=5.0),))
    late = Plan(workers=(SlowStart(worker=1, delay_s=7.0),), begin="launch")
    ended_s = {}
    for name, plan in (("slow", slow), ("fast", fast), ("late", late)):
        scenario = Scenario(work=work, world=World(faults=plan), engine=engine)
        run = ENGINES[engine].run(scenario, stdout=out)
        assert run.conditions.left_out == [] and [*run.faults] == [plan_kind(plan)]
        ended_s[name] = run.ended_s
    said = sorted(line for line in out.getvalue().splitlines() if "ended" not in line)
    # The process whose clock is five times as fast sees each of its own seconds pass as one.
    assert said == ["0 0.1 10"] * 3 + ["1 0.1 10"] * 2 + ["1 2.0 12"]
    assert 12 < ended_s["slow"] < 13 and 10 < ended_s["fast"] < 11 and 17 < ended_s["late"] < 18


def plan_kind(plan: Plan) -> str:
    (item,) = [item for _, _, item in plan.items()]
    return item.kind


def test_a_plan_about_a_member_that_is_not_there_is_refused(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"version": 1, "workers": [{"kind": "crash", "worker": 7}]}), encoding="utf-8"
    )
    assert load_plan(plan)
    done = squall("run", str(SCRIPT), "--workers", "3", "--engine", "torch", "--faults", str(plan))
    assert done.returncode == 2 and "faults.workers[0].worker: 7 is not one of the 3" in done.stderr
