"""Scripts that end without an error and are wrong, on either engine, or make an engine wrong.

What is wrong with PyTorch's engine alone the port does right, and is then called good there.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from squall.model.checks.registry import check
from squall.model.events.run import Run
from squall.properties.support.commands import squall
from squall.properties.support.scripts import run_file, script_scenario
from squall.sim.faults.plan import Plan, Schedule
from squall.sim.scenarios.engines import ENGINES
from squall.sim.stock.script import complaints
from squall.sim.world.schedule import Order

FOLDER = Path(__file__).parent / "wrong"


def broken(run: Run) -> set[tuple[str, str]]:
    return {(violation.property, violation.what) for violation in run.violations}


def on_torch(name: str) -> Run:
    scenario = script_scenario(FOLDER / f"{name}.py", engine="torch", check=False)
    run = ENGINES["torch"].run(scenario, stdout=io.StringIO(), stderr=io.StringIO())
    run.violations = check(run)
    return run


def on_port(name: str) -> Run:
    run = run_file(FOLDER / f"{name}.py", stdout=io.StringIO(), stderr=io.StringIO())
    run.violations = check(run)
    return run


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("assertion", ("internal errors", "an assertion inside the engine failed")),
        ("context_revived", ("contexts", "FORWARD_AUTOGRAD_REQ after the release")),
        ("context_revived", ("left behind", "num_autograd_contexts")),
    ],
)
@pytest.mark.usefixtures("compiled_engine")
def test_what_is_wrong_with_the_compiled_engine_alone(name: str, wrong: tuple[str, str]) -> None:
    run = on_torch(name)
    assert run.errors == [] and run.outcome in ("failed", "leak")
    assert wrong in broken(run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["pass_left_running", "unwritten_argument"])
@pytest.mark.usefixtures("compiled_engine")
def test_what_the_compiled_engine_never_gets_rid_of(name: str) -> None:
    """Its shutdown then waits, goes on, or ends the process, as what is left decides."""
    run = on_torch(name)
    assert {error.type for error in run.errors} <= {"Died"} and not run.ok
    assert broken(run)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    ["assertion", "context_revived", "pass_left_running", "unread_argument", "unwritten_argument"],
)
def test_the_port_does_these_right(name: str) -> None:
    run = on_port(name)
    assert (run.outcome, run.violations, run.settled) == ("ok", [], True)


def test_a_call_that_nobody_answers_is_told_on_both_engines(compiled_engine: None) -> None:
    """The shutdown waits for it, or does not."""
    for run in (on_port("never_completed"), on_torch("never_completed")):
        never = ("futures", "a request was never answered")
        assert run.outcome == "deadlock" or never in broken(run)
        assert run.errors == [] and run.violations


def test_what_a_thread_of_the_engine_writes_is_found() -> None:
    told = """
[E1122 15:00:15 request_callback_no_python.cpp:561] Received error while processing request type 258
Exception in thread Thread-1 (run):
Exception in thread pool task: Invalid argument
Exception in thread pool task: could not retrieve
"""
    assert complaints(told) == ["Exception in thread pool task: could not retrieve"]


# -- planted into a run --------------------------------------------------------------------------


TWO_GROUPS = Path("properties/scripts/groups_in_a_row.py")


@pytest.mark.parametrize("order", ["fifo", "random"])
def test_groups_one_after_the_other_are_judged_each_by_itself(order: Order) -> None:
    plan = Plan(schedule=Schedule(order=order))
    run = run_file(TWO_GROUPS, faults=plan, stdout=io.StringIO(), stderr=io.StringIO())
    assert len({group for _, _, group in run.rpc_groups.joined}) == 3
    assert check(run) == []
    # As if all were one: ids come again.
    again = Run(run.records, script=run.script, workers=run.workers)
    assert {violation.property for violation in check(again)} >= {"rrefs", "contexts", "futures"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("type", "property", "what"),
    [
        ("pass_ended", "contexts", "a pass was left"),
        ("call_ended", "futures", "a call never ended"),
        ("handler_ended", "futures", "a request was never answered"),
        ("fork_deleted", "rrefs", "a fork was left"),
        ("context_released", "contexts", "a context was left"),
    ],
)
def test_an_event_that_is_missing_is_missed(type: str, property: str, what: str) -> None:
    """In the events of an example, the last of a type in a worker's part of the run."""
    run = run_file(
        Path("examples/rref_sharing.py"), stdout=io.StringIO(), stderr=io.StringIO(), seed=3
    )
    assert check(run) == []
    last = max(n for n, record in enumerate(run.records) if record[3].name == type)
    kept = [record for n, record in enumerate(run.records) if n != last]
    less = Run(kept, script=run.script, workers=run.workers)
    assert property in {violation.property for violation in check(less)}
    less.rpc_groups.left_well = False  # who leaves without waiting may leave that behind
    assert what not in {violation.what for violation in check(less)}


def test_a_process_that_dies_before_it_joins_is_named(
    tmp_path: Path, compiled_engine: None
) -> None:
    text = """
import os, signal
import torch.distributed.rpc as rpc
rank = int(os.environ["RANK"])
if rank == 1:
    os.kill(os.getpid(), signal.SIGSEGV)
rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
"""
    script = tmp_path / "script.py"
    script.write_text(text, encoding="utf-8")
    done = squall("run", str(script), "--workers", "2", "--engine", "torch")
    assert done.returncode == 1
    assert "\nprocess 1 of script.py died of SIGSEGV" in done.stdout
    assert "worker -1" not in done.stdout and "hint:" not in done.stdout
