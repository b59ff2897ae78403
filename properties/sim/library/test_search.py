"""``squall.fuzz``, ``replay``, ``shrink``, ``explore`` and ``diff`` for functions, and plans as objects."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

import squall
from squall import faults

#: of worker 0: who has called, in that order
order: list[int] = []


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SQUALL_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def note(rank: int) -> list[int]:
    order.append(rank)
    return list(order)


def race(rank: int) -> None:
    if rank:
        rpc.rpc_sync("worker0", note, args=(rank,))
    else:
        time.sleep(1)
        assert order == [1, 2]


def one_call(rank: int) -> float:
    value = rpc.rpc_sync("worker1", torch.add, args=(torch.ones(1), 1)) if rank == 0 else 0
    return float(value)


def told(rank: int) -> list[int]:
    return rpc.rpc_sync("worker1", note, args=(rank,)) if rank == 0 else []


def backward(rank: int) -> None:
    if rank == 0:
        with dist_autograd.context() as context_id:
            x = torch.ones(2, requires_grad=True)
            y = rpc.rpc_sync("worker1", torch.mul, args=(x, 3))
            dist_autograd.backward(context_id, [y.sum()])
            assert dist_autograd.get_gradients(context_id)[x].tolist() == [3, 3]


def test_a_campaign_ends_at_the_first_failure_which_is_small_and_can_be_replayed() -> None:
    found = squall.fuzz(race, workers=3, seeds=50, join="worker{rank}")
    assert not found.ok and found.finding is not None
    finding = found.finding
    assert found.runs == finding.tried
    assert finding.small.errors[0].type == "AssertionError"
    assert "assert [2, 1] == [1, 2]" in finding.problems[0] or "rank 0" in finding.problems[0]
    again = squall.replay(finding.file)
    assert again.digest == finding.small.digest
    assert again.errors == finding.small.errors
    with pytest.raises(squall.Failed, match="squall replay"):
        found.raise_if_failed()


def asserts() -> None:
    raise AssertionError("this is no fault's doing")


def test_errors_that_faults_cause_count_only_if_asked_to() -> None:
    options = {"workers": 2, "seeds": 25, "faults": "storm", "join": "worker{rank}"}
    assert squall.fuzz(backward, **options).ok
    found = squall.fuzz(backward, strict=True, **options)
    assert found.finding is not None
    assert found.finding.small.errors[0].type in ("RuntimeError", "ConnectionError")
    small = found.finding.small.scenario
    assert 1 <= len(small.faults) <= 2 < len(found.finding.run.scenario.faults) + 2
    assert "faults storm" in repr(found)


def test_an_assertion_that_fails_on_another_worker_counts_under_faults() -> None:
    def step(rank: int) -> None:
        if rank == 0:
            rpc.rpc_sync("worker1", asserts)

    late = faults.plan(faults.delay(seconds=0.1))
    found = squall.fuzz(step, workers=2, seeds=1, faults=late, shrink_s=0, join="worker{rank}")
    assert found.finding is not None and "no fault's doing" in found.finding.problems[0]


def test_ranks_that_a_fault_keeps_in_a_shutdown_without_a_limit_have_done_their_work() -> None:
    def step(rank: int) -> None:
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
        rpc.shutdown()

    def stuck(rank: int) -> None:
        step(rank)
        if rank == 0:
            threading.Event().wait()

    away = faults.plan(faults.drop(types=("PYTHON_CALL",), dst=0))
    run = squall.run(step, workers=3, faults=away)
    assert run.outcome == "deadlock" and "in rpc.shutdown" in run.report()
    assert squall.fuzz(step, workers=3, seeds=5, faults=away).ok
    assert not squall.fuzz(step, workers=3, seeds=5, faults=away, strict=True).ok
    assert not squall.fuzz(stuck, workers=3, seeds=5).ok
    unanswered = faults.plan(faults.drop(types=("PYTHON_RET",), dst=1))
    assert squall.fuzz(step, workers=3, seeds=1, faults=unanswered, engine="torch").ok


def test_collectives_that_do_not_go_together_are_a_failure() -> None:
    def step(rank: int) -> None:
        dist.init_process_group("gloo")
        dist.all_reduce(torch.ones(1 + rank))

    found = squall.fuzz(step, workers=2, seeds=1, engine="torch", shrink_s=0)
    with pytest.raises(squall.Failed, match="collectives that do not go together: collective 1 of"):
        found.raise_if_failed()


def test_a_function_that_calls_without_a_group_is_told_what_to_add() -> None:
    with pytest.raises(squall.Failed, match=r'hint: with join="worker\{rank\}" each rank joins'):
        squall.fuzz(one_call, workers=2, seeds=1, shrink_s=0).raise_if_failed()


def test_random_programs_stand_for_seeds_where_there_is_no_function() -> None:
    found = squall.fuzz(seeds=range(3, 6))
    found.raise_if_failed()
    assert found.runs == 3


def test_a_run_is_replayed_and_made_small() -> None:
    run = squall.run(race, workers=3, seed=2, join="worker{rank}", faults="mild")
    seeds = iter(range(3, 100))
    while run.ok:
        run = squall.run(race, workers=3, seed=next(seeds), join="worker{rank}", faults="mild")
    assert squall.replay(run).digest == run.digest
    small = squall.shrink(run, seconds=20)
    assert small.errors[0].type == "AssertionError"
    assert len(small.scenario.faults) == 0
    with pytest.raises(ValueError, match="nothing to make smaller"):
        squall.shrink(squall.run(one_call, workers=2, join="worker{rank}"))


def test_what_cannot_be_replayed_is_said(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no file and no stored failure"):
        squall.replay("abcdef")
    run = squall.run(one_call, workers=2, join="worker{rank}")
    from squall.sim.scenarios.file import dump_scenario

    foreign = tmp_path / "foreign.json"
    foreign.write_text(dump_scenario(run.scenario), encoding="utf-8")
    with pytest.raises(PermissionError, match="allow_scripts"):
        squall.replay(foreign)
    assert squall.replay(foreign, allow_scripts=True).digest == run.digest


def test_every_order_of_a_small_function() -> None:
    assert squall.explore(one_call, workers=2, join="worker{rank}").raise_if_failed().all
    found = squall.explore(race, workers=3, join="worker{rank}")
    assert found.all and not found.ok
    assert found.counterexamples[0].errors[0].type == "AssertionError"
    with pytest.raises(squall.Failed):
        found.raise_if_failed()


def exchange(rank: int, at_once: bool) -> None:
    dist.init_process_group("gloo")
    other, mine, theirs = 1 - rank, torch.ones(2), torch.empty(2)
    works = [dist.isend(mine, other)]
    if not at_once:
        works.pop().wait()
    for work in [*works, dist.irecv(theirs, other)]:
        work.wait()


def test_every_order_of_a_function_of_process_groups() -> None:
    found = squall.explore(exchange, workers=2, args=(True,)).raise_if_failed()
    assert (found.all, [*found.sends["streams"]]) == (True, ["deadlock"])
    found = squall.explore(exchange, workers=2, args=(False,))
    assert (found.ok, [*found.sends["buffered"]]) == (False, ["ok"])
    with pytest.raises(squall.Failed, match="Timed out"):
        found.raise_if_failed()


@pytest.mark.usefixtures("compiled_engine")
def test_a_function_on_both_engines() -> None:
    same = squall.diff(one_call, workers=2, join="worker{rank}")
    assert same.ok and not same.differences

    def engine(rank: int) -> str:
        return rpc.rpc_sync.__code__.co_filename.partition("torch/")[1]

    differs = squall.diff(engine, workers=1)
    assert isinstance(differs.differences, list) and "results" in str(differs.differences[0])


def test_plans_are_objects() -> None:
    plan = faults.plan(
        faults.drop(types=("PYTHON_CALL",), src=0, dst=1, nth=(1,)),
        faults.delay(seconds=0.1, probability=0.5),
        faults.delay(seconds=0.2, probability=0.5),
        heal_s=100.0,
    )
    assert [item.id for item in plan.messages if item.draws] == [0, 1]
    run = squall.run(told, workers=2, join="worker{rank}", faults=plan)
    assert run.faults["drop"] == 1
    assert run.errors[0].type == "RuntimeError" and "60000 ms" in run.errors[0].message
    with pytest.raises(ValueError, match="nth"):
        faults.drop(nth=(0,))


def test_a_plan_comes_from_a_file(tmp_path: Path) -> None:
    plan = faults.plan(faults.crash(worker=1, at_s=0.0))
    file = tmp_path / "plan.json"
    file.write_text(faults.dump(plan), encoding="utf-8")
    assert faults.load(file) == plan
    assert squall.run(one_call, workers=2, faults=str(file)).scenario.faults == plan


def test_messages_are_held_lost_and_delivered_by_hand() -> None:
    def step(rank: int) -> list[object]:
        if rank:
            return []
        with squall.network.rule(squall.network.drop(kind="PYTHON_CALL", nth=1)):
            with pytest.raises(RuntimeError, match="3000 ms"):
                rpc.rpc_sync("worker1", note, args=(7,), timeout=3)
        call = rpc.rpc_async("worker1", note, args=(8,))
        (message,) = squall.network.in_flight()
        squall.network.deliver(message)
        squall.network.pause(1)
        time.sleep(2)
        assert not call.done()
        squall.network.resume(1)
        return [*call.wait(), squall.network.now() > 5]

    run = squall.run(step, workers=2, join="worker{rank}")
    assert run.raise_if_failed().results[0] == [8, True]


def test_a_rank_ends_by_hand_and_its_peers_see_that() -> None:
    def step(rank: int) -> str:
        if rank == 0:
            squall.network.crash(1)
            with pytest.raises(LookupError, match="no rank 1"):
                squall.network.crash(1)
            try:
                rpc.rpc_sync("worker1", note, args=(1,))
            except RuntimeError as error:
                return str(error)
        return "" if time.sleep(1) else "ended"

    run = squall.run(step, workers=3, join="worker{rank}")
    assert "not connected" in run.results[0]
    assert run.results[1:] == [None, "ended"]
    assert run.ok


def test_the_network_is_there_in_ranks_alone() -> None:
    with pytest.raises(RuntimeError, match="there is no rank here"):
        squall.network.in_flight()
    with pytest.raises(squall.Failed, match="in a rank of its own"):
        squall.run(lambda rank: squall.run(one_call), workers=1).raise_if_failed()


def test_campaigns_may_run_in_another_thread() -> None:
    found: list[bool] = []
    thread = threading.Thread(
        target=lambda: found.append(squall.fuzz(race, workers=3, seeds=50, join="worker{rank}").ok)
    )
    thread.start()
    thread.join(100)
    assert found == [False]


_RETRIES = """
import os
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

applied = set()


def apply(step):
    applied.add(step)
    return len(applied)


def work(rank, size):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29516")
    rpc.init_rpc("server" if rank == 0 else f"client{{rank}}", rank=rank, world_size=size)
    for step in range(4 if rank else 0):
        for _ in range(8):
            try:
                rpc.rpc_sync("server", apply, args=(step,), timeout=1)
                break
            except RuntimeError:
                continue
    assert {holds}, "the last update was lost"
    rpc.shutdown()


if __name__ == "__main__":
    {start}
"""
_STARTS = {
    "spawn": "mp.spawn(work, args=(2,), nprocs=2)",
    "ranks": 'work(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))',
}


def test_whoever_starts_the_ranks_the_verdict_is_the_same(tmp_path: Path) -> None:
    said = set()
    for start, how in _STARTS.items():
        script = tmp_path / f"{start}.py"
        for holds in ("True", "rank != 1"):
            script.write_text(_RETRIES.format(start=how, holds=holds), encoding="utf-8")
            found = squall.fuzz(script, workers=2, seeds=40, faults="rough", shrink_s=0)
            assert found.ok == (holds == "True"), str(found.finding)
        assert found.finding is not None
        with pytest.raises(squall.Failed) as failed:
            found.raise_if_failed()
        said.add(str(failed.value).partition(" at ")[0])
    assert said == {"rank 1: AssertionError: the last update was lost"}
