"""Hangs explained: who waits for what, who holds it, and what became of the message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from squall.model.events.hang import explain_timeout, hang_of, timeouts
from squall.model.events.run import Run
from squall.model.events.waiting import Waiting, to_json, wait_graph
from squall.properties.support.playing import write
from squall.properties.support.scripts import run_file
from squall.real.rpc import api as rpc
from squall.sim.cli.reports.script import script_json
from squall.sim.cluster import Cluster
from squall.sim.scenarios.play import play
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import draw
from squall.sim.world.deadlock import Deadlock
from squall.sim.world.rules import Drop

PINGPONG = """
    import os
    import torch.distributed.rpc as rpc

    def ping(n):
        if n == 0:
            return 1
        there = "worker1" if rpc.get_worker_info().name == "worker0" else "worker0"
        return rpc.rpc_sync(there, ping, args=(n - 1,), timeout=0)

    rank = int(os.environ.get("RANK", 0))
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        rpc.rpc_sync("worker1", ping, args=(4,), timeout=0)
    rpc.shutdown()
"""


def run_of(script: Path) -> Run:
    return run_file(script, workers=2)


def test_threads_that_wait_for_each_other_are_a_cycle(tmp_path: Path) -> None:
    """One thread a worker, and calls that go to and fro: the third finds no thread."""
    report = run_of(write(tmp_path, PINGPONG))
    assert report.outcome == "deadlock"
    graph = wait_graph(report.records, report.when_stuck.waiting)
    (cycle,) = nx.simple_cycles(graph)
    kinds = [graph.nodes[node]["kind"] for node in cycle]
    assert sorted(kinds) == ["reply", "reply", "task", "task"]
    assert {graph.nodes[node]["worker"] for node in cycle} == {0, 1}
    assert report.why()[0] == (
        "deadlock: `ping` on worker1 waits for `ping` on worker0 (script.py:9); that waits for `ping` on "
        "worker1 (script.py:9), for which no thread of worker1 is free"
    )
    told = json.loads(json.dumps(script_json(report, 0)))["wait_graph"]
    assert {edge["from"] for edge in told["edges"]} <= {node["id"] for node in told["nodes"]}
    assert all(node["label"] and node["kind"] for node in told["nodes"])


def test_a_run_that_ends_has_no_graph(tmp_path: Path) -> None:
    report = run_of(write(tmp_path, PINGPONG.replace("args=(4,)", "args=(1,)")))
    assert report.outcome == "ok"
    assert report.why() == [] and script_json(report, 0)["wait_graph"] is None


def lost(message: Any) -> Any:
    name = message.type.name
    return Drop("the cable is cut") if name == "PYTHON_CALL" and message.src == 0 else None


def identity(x: int) -> int:
    return x


def test_a_lost_message_is_named() -> None:
    with Cluster(2) as cluster:

        def main(rank: int) -> None:
            if rank == 0:
                cluster.network.add_rule(lost)
                rpc.rpc_sync("worker1", identity, args=(1,), timeout=0)

        with pytest.raises(Deadlock) as caught:
            cluster.run(main)
        graph = wait_graph(cluster.trace.records, caught.value.waiting)
    hang = hang_of(graph)
    assert hang is not None and hang.cause.startswith(
        "hang: worker0 waits for `identity` on worker1 ("
    )
    assert hang.cause.endswith(" was lost: the cable is cut")
    reply = next(node for node, data in graph.nodes(data=True) if data["kind"] == "reply")
    assert list(graph.successors(reply)) == [("worker", 1)]


def test_a_timeout_is_explained_from_the_events() -> None:
    """The call times out since the one that it waits for was lost."""
    with Cluster(3) as cluster:

        def lost_further_on(message: Any) -> Any:
            return Drop("lost") if (message.src, message.dst) == (1, 2) else None

        def main(rank: int) -> None:
            if rank == 0:
                cluster.network.add_rule(lost_further_on)
                with pytest.raises(RuntimeError, match="RPC ran for more than set timeout"):
                    rpc.rpc_sync("worker1", further, args=(2,), timeout=1)
                cluster.network.remove_rule(lost_further_on)

        cluster.run(main)
        records = cluster.trace.records
    first = next(timeouts(records))
    lines = explain_timeout(records, first)
    assert len(lines) == 2
    assert lines[0].startswith("worker 0 waits for `further` on worker 1 since t=")
    assert lines[1].startswith("`further` on worker 1 waits for a call on worker 2 since t=")
    assert lines[1].endswith(": the request was lost: lost")


def further(to: int) -> int:
    return int(rpc.rpc_sync(f"worker{to}", identity, args=(1,), timeout=1.5))


def test_a_pass_that_is_never_fed_is_explained() -> None:
    """What FAST mode waits for without end: the graph says which gradients nobody sends."""
    with campaign_settings():
        run = next(r for r in map(play, map(draw, range(300))) if r.hangs and r.when_stuck.waiting)
    cause = run.why()[0]
    assert (
        "waits for the backward pass of the 1st context of worker" in cause
        and "gradients for autograd message" in cause
    )
    assert cause.endswith(" has sent none: nothing there has computed them")


def test_a_lock_is_held_by_somebody() -> None:
    waiting = [
        Waiting(1, "a", 0, 0.5, "`x`", "lock", ends=(2,), took="t.py:1"),
        Waiting(2, "b", 1, 0.25, "`y`", "lock", ends=(1,), took="t.py:2"),
        Waiting(3, "c", 1, 0.0, "a bell"),
    ]
    graph = wait_graph([], waiting)
    hang = hang_of(graph)
    assert hang is not None and [step.who for step in hang.cycle] == ["a", "b"]
    assert hang.cause == (
        "deadlock: a holds `y` (t.py:2) and waits for `x`, which b holds (t.py:1) while it waits for `y`"
    )
    assert hang.others == ["c waits for a bell since t=0.000000 s"]
    assert len(to_json(graph)["nodes"]) == 6
