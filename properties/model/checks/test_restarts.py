"""Nothing of a process that has ended is kept or used by those who have heard of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from squall.model.checks.registry import check
from squall.model.checks.restarts import RESTARTS
from squall.model.events.run import Run
from squall.real import tracing
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster
from squall.sim.faults.plan import Crash, Delay, Plan
from squall.sim.search.mutants.registry import MUTANTS

#: planted bugs that show in :func:`story`, and what is said of each
SHOWN = {
    "reference-to-the-old-owner-is-used": "used",
    "dead-reference-is-fetched": "used",
    "dead-reference-is-handed-on": "used",
    "graph-of-the-old-process-stays": "part of the graph",
    "never-had-it-counts-as-heard": "went no further",
    "never-had-it-ends-there": "went no further",
    "calls-numbered-from-the-start": "gave one id",
    "messages-numbered-from-the-start": "gave one id",
}


def sleep(seconds: float) -> None:
    current_worker().runtime.sleep(seconds)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def through(to: str, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = rpc.rpc_sync(to, double, args=(x,))
    return result


def fetch(rref: Any) -> Any:
    return rref.to_here()


def tried(call: Any, *args: Any, **kwargs: Any) -> str:
    try:
        call(*args, **kwargs)
    except RuntimeError as error:
        return str(error)
    return ""


def story(news_s: float) -> tuple[Run, list[str]]:
    """Worker 1 ends at 0.5 s and is there again at once. Worker 0 has a reference to a value of it and a
    context that it knows, and it has carried the context to worker 2. The news takes so many seconds."""
    late = Delay(types=("PYTHON_RET",), src=1, dst=0, nth=(2,), seconds=news_s)
    plan = Plan(messages=(late,), workers=(Crash(worker=1, at_s=0.5, restart_after_s=0.0),))

    told: list[str] = []

    def main(rank: int) -> None:
        if rank:
            return
        kept = rpc.remote("worker1", double, args=(torch.ones(2),))
        kept.to_here()
        x = torch.ones(2, requires_grad=True)
        with dist_autograd.context():
            rpc.rpc_sync("worker1", through, args=("worker2", x))
            rpc.rpc_sync("worker1", double, args=(torch.ones(2),))
            late_answer = rpc.rpc_async("worker1", double, args=(torch.ones(2),))
            sleep(0.6)
        with dist_autograd.context():
            rpc.rpc_sync("worker1", through, args=("worker2", x))
            late_answer.wait()
            sleep(news_s)
            told.append(tried(kept.to_here))
            told.append(tried(rpc.rpc_sync, "worker2", fetch, args=(kept,)))

    with Cluster(3, faults=plan, latency="constant:0.001", rpc_timeout_s=20.0) as cluster:
        cluster.run(main, shutdown=False)
        cluster.settle()
        cluster.shutdown()
        names = {worker.id: worker.name for worker in cluster.workers}
        run = Run(cluster.trace.records, names=names, ended_s=cluster.runtime.now())
    return run, told


@pytest.mark.parametrize("news_s", [0.0, 2.0])
def test_all_is_well(news_s: float) -> None:
    run, told = story(news_s)
    assert ["has ended" in each for each in told] == [True, True]
    assert sorted(run.records[n][4] for n in run.of(tracing.PEER_ENDED)) == [(0, 1, 0), (2, 1, 0)]
    assert [str(each) for each in check(run)] == []


@pytest.mark.parametrize("name", SHOWN)
def test_a_planted_bug_is_told(name: str) -> None:
    with MUTANTS[name].apply():
        found = [*RESTARTS.check(story(0.0)[0]), *RESTARTS.check(story(2.0)[0])]
    assert any(SHOWN[name] in each.what for each in found), found
