"""The order of things: priorities with change points, recorded orders, and plans made concrete."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from squall.properties.sim.faults.test_injector import attempt, empty_log, log, note, sleep, train
from squall.properties.support.paths import DOCS
from squall.real import tracing
from squall.real.rpc import api as rpc
from squall.real.runtime import current_task
from squall.sim.cluster import Cluster
from squall.sim.faults import plan as p
from squall.sim.faults.concrete import concrete
from squall.sim.faults.file import PlanError, check_plan, dump_plan, load_plan, plan_to_json
from squall.sim.faults.plan import Plan, Schedule

__all__ = ["empty_log"]


def run(plan: Plan, story: Any, **options: Any) -> tuple[Any, Cluster]:
    options.setdefault("latency", "lognormal:0.001:0.5")
    options.setdefault("rpc_timeout_s", 5.0)
    with Cluster(3, faults=plan, **options) as cluster:
        results = cluster.run(lambda rank: story() if rank == 0 else None, shutdown=False)
        cluster.settle()
    return results[0], cluster


def race() -> None:
    """Three calls under way at once."""
    for call in [rpc.rpc_async("worker1", note, args=(n,)) for n in range(3)]:
        call.wait()


def orders(schedule: Schedule, seeds: range) -> set[tuple[int, ...]]:
    found = set()
    for seed in seeds:
        log.clear()
        run(Plan(schedule=schedule), race, seed=seed, latency="0")
        found.add(tuple(log))
    return found


def test_priorities_bring_about_every_order() -> None:
    assert orders(Schedule(), range(5)) == {(0, 1, 2)}
    assert len(orders(Schedule(order="pct", depth=1), range(40))) == 6


def test_on_a_busy_processor_threads_are_late_now_and_then() -> None:
    """What would sleep for longer is always first; what takes no time else is sometimes late."""

    def late() -> tuple[float, float]:
        runtime = current_task().runtime
        begun = runtime.now()
        rpc.rpc_sync("worker1", note, args=(0,))
        called = runtime.now() - begun
        sleep(0.2)
        return called, runtime.now() - begun - called

    plan = Plan(schedule=Schedule(order="busy"))
    found = [run(plan, late, seed=seed, latency="0")[0] for seed in range(40)]
    calls, sleeps = zip(*found, strict=True)
    assert min(calls) < 0.05 < 0.5 < max(calls) < 10
    assert min(sleeps) == pytest.approx(0.2) and 0.7 < max(sleeps) <= 1.2 + 1e-9


def test_busy_processors_use_up_no_limit_of_a_call() -> None:
    """However much there is to do: a call of the default limit of 60 s that makes hundreds ends."""

    def many() -> float:
        for n in range(300):
            rpc.rpc_sync("worker1", note, args=(n,))
        return current_task().runtime.now()

    plan = Plan(schedule=Schedule(order="busy"))
    assert 5 < max(run(plan, many, seed=seed, latency="0")[0] for seed in range(6)) < 12


def test_a_change_point_makes_an_order_that_priorities_alone_cannot() -> None:
    """A task of high priority that is interrupted between two steps needs depth 2."""

    def steps() -> None:
        def first() -> None:
            log.append("a1")
            runtime.checkpoint()
            log.append("a2")

        from squall.real.runtime import current_task

        runtime = current_task().runtime
        runtime.spawn(first, name="first", daemon=False)
        runtime.spawn(lambda: log.append("b"), name="second", daemon=False)

    def found(depth: int) -> set[str]:
        results = set()
        for seed in range(60):
            log.clear()
            run(Plan(schedule=Schedule(order="pct", depth=depth, steps=300)), steps, seed=seed)
            results.add(" ".join(log))
        return results

    assert found(1) == {"a1 a2 b", "b a1 a2"}
    assert "a1 b a2" in found(20)


def test_a_low_priority_message_is_late_whatever_its_latency() -> None:
    """In the order pct the latency does not say which of two messages comes first."""
    found = set()
    for seed in range(20):
        log.clear()

        def both() -> None:
            calls = [
                rpc.rpc_async("worker1", note, args=("direct",)),
                rpc.rpc_async("worker2", forward),
            ]
            for call in calls:
                call.wait()

        run(Plan(schedule=Schedule(order="pct")), both, seed=seed, latency="constant:1")
        found.add(tuple(log))
    assert found == {("direct", "by way of 2"), ("by way of 2", "direct")}


def forward() -> None:
    rpc.rpc_sync("worker1", note, args=("by way of 2",))


def steps_of_training() -> list[Any]:
    return [attempt(train, f"worker{1 + n % 2}") for n in range(5)]


def plain(cluster: Cluster) -> list[Any]:
    """The events of a run, without what tells one plan from another."""
    return [
        (*record[:4], record[4][:-1])  # the last value is the reason of a loss
        if record[3] is tracing.MESSAGE_DROPPED
        else record
        for record in cluster.trace.records
        if record[3] is not tracing.FAULT_INJECTED
    ]


@pytest.mark.parametrize("order", ["random", "pct"])
@pytest.mark.parametrize("seed", range(4))
def test_a_recorded_order_makes_the_same_run(order: p.Order, seed: int) -> None:
    plan = Plan(schedule=Schedule(order=order))
    results, cluster = run(plan, steps_of_training, seed=seed, record_schedule=True)
    assert cluster.schedule_log is not None
    unrecorded = run(plan, steps_of_training, seed=seed)[1]
    assert unrecorded.trace.digest() == cluster.trace.digest()
    recorded = Plan(schedule=cluster.schedule_log.schedule())
    assert recorded.is_concrete
    again, replayed = run(recorded, steps_of_training, seed=seed)
    assert again == results
    assert replayed.trace.digest() == cluster.trace.digest()


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_made_concrete_makes_the_same_run(seed: int) -> None:
    plan = Plan(
        messages=(
            p.Drop(probability=0.05, id=1),
            p.Delay(probability=0.3, seconds=0.01, spread_s=0.5, id=2),
            p.Duplicate(types=("PYTHON_CALL",), probability=0.5, after_s=(0.1, 1.0), id=3),
            p.Fail(direction="request", probability=0.1, from_s=0.1, id=4),
        ),
        links=(p.Loss(src=0, probability=0.2, id=5), p.LatencySpike(dst=1, factor=2.0)),
        schedule=Schedule(order="random"),
        heal_s=30.0,
    )

    def story() -> list[Any]:
        return [*steps_of_training(), sleep(40.0), train()]

    results, cluster = run(plan, story, seed=seed, record_schedule=True)
    assert results[-1] == 3.0
    assert cluster.schedule_log is not None
    found = concrete(plan, cluster.trace.records, cluster.schedule_log.schedule())
    assert not plan.is_concrete
    assert found.is_concrete
    # Written to a file and read again, it makes the same run.
    found = load_plan(dump_plan(found), workers=3)
    again, replayed = run(found, story, seed=seed)
    assert again == results
    assert plain(replayed) == plain(cluster)


def test_one_item_taken_away_leaves_the_others_as_they_were() -> None:
    calls = ("PYTHON_CALL",)
    items = tuple(p.Drop(types=calls, dst=1, nth=(n,)) for n in (2, 4, 5))

    def story() -> None:
        for number in range(1, 7):
            rpc.rpc_async("worker1", note, args=(number,))

    plan = Plan(messages=items)
    run(plan, story, latency="0.001")
    assert log == [1, 3, 6]
    log.clear()
    run(plan.without("messages", 1), story, latency="0.001")
    assert log == [1, 3, 4, 6]


# -- files ----------------------------------------------------------------------------------------


def full_plan() -> Plan:
    """One item of every kind."""
    moment = p.Moment(event="pass_started", worker=1, nth=2)
    return Plan(
        messages=(
            p.Delay(types=("PYTHON_CALL",), seconds=1.0, spread_s=0.5, id=1),
            p.Drop(src=0, dst=1, nth=(1, 3)),
            p.Duplicate(direction="response", after_s=(0.0, 9.0)),
            p.Hold(until=p.Selector(types=("RREF_ACK",), nth=(2,)), at_most_s=3.0),
            p.Corrupt(flips=3, probability=0.5, id=2),
            p.Fail(error="gone", from_s=1.0, until_s=2.0),
            p.Reset(dst=1, part=0.25),
        ),
        links=(
            p.LatencySpike(src=0, factor=3.0, extra_s=0.1),
            p.Bandwidth(bytes_per_s=1e6),
            p.Loss(probability=0.1, id=3),
            p.Flapping(period_s=1.0, down_s=0.2, cut="hold"),
            p.Fifo(dst=2),
        ),
        partitions=(p.Partition(groups=((0,), (1, 2)), one_way=True, cut="fail", until_s=4.0),),
        workers=(
            p.Crash(worker=1, moment=moment, silent=True, restart_after_s=2.0),
            p.Pause(worker=0, at_s=1.0, for_s=0.5),
            p.SlowCpu(worker=2, factor=10.0),
            p.SlowStart(worker=2, delay_s=1.0),
            p.Shutdown(worker=2, at_s=9.0, graceful=True),
        ),
        inner=(
            p.PoolSize(threads=1),
            p.Allocation(worker=1, nth=3),
            p.Raise(worker=0, where="hook", nth=1),
            p.Garbage(worker=1, at_s=0.5),
            p.ClockSkew(worker=2, offset_s=-3.0, rate=0.9),
        ),
        schedule=Schedule(order="pct", depth=4, steps=500),
        begin="launch",
        heal_s=20.0,
    )


def test_every_kind_survives_a_file() -> None:
    plan = full_plan()
    assert {item.kind for _, _, item in plan.items()} | {"restart"} == set(p.KINDS)
    assert load_plan(dump_plan(plan), workers=3) == plan
    assert len(plan) == 23


def test_taking_all_items_away_one_by_one_ends_with_nothing() -> None:
    plan = replace(full_plan(), schedule=Schedule())
    while len(plan):
        group, at, _ = next(plan.items())
        plan = plan.without(group, at)
    assert not plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"messages": [{"kind": "drop", "dst": 9}]}, "faults.messages[0].dst: 9 is not one of"),
        (
            {"messages": [{"kind": "drop"}, {"kind": "dorp"}]},
            "faults.messages[1].kind: 'dorp' is no such kind; there are delay, drop, duplicate",
        ),
        ({"messages": [{"kind": "delay"}]}, "faults.messages[0].seconds: is missing"),
        (
            {"messages": [{"kind": "drop", "types": ["CALL"]}]},
            "faults.messages[0].types[0]: 'CALL' is no message type; there are SCRIPT_CALL",
        ),
        (
            {"messages": [{"kind": "drop", "nth": [0]}]},
            "faults.messages[0].nth[0]: 0 is wrong: should be greater than 0",
        ),
        ({"messages": [{"kind": "drop", "x": 1}]}, "faults.messages[0].x: is no field of a drop"),
        (
            {"messages": [{"kind": "hold", "until": {"src": 7}}]},
            "faults.messages[0].until.src: 7 is not one of the 3 workers",
        ),
        (
            {"links": [{"kind": "loss", "probability": 1.5}]},
            "faults.links[0].probability: 1.5 is wrong",
        ),
        (
            {"links": [{"kind": "flapping", "period_s": 1.0, "down_s": 2.0}]},
            "faults.links[0].down_s: 2.0 is above period_s, 1.0",
        ),
        (
            {"partitions": [{"kind": "partition", "groups": [[0, 1], [1]]}]},
            "faults.partitions[0].groups[1][0]: 1 is in groups[0] too",
        ),
        (
            {"partitions": [{"kind": "partition", "groups": [[0, 1], [3]]}]},
            "faults.partitions[0].groups[1][0]: 3 is not one of the 3 workers",
        ),
        (
            {"workers": [{"kind": "crash", "worker": 1, "moment": {"event": "lunch"}}]},
            "faults.workers[0].moment.event: 'lunch' is no event; there are task_started",
        ),
        ({"workers": [{"kind": "pause", "worker": 1}]}, "faults.workers[0].for_s: is missing"),
        ({"inner": [{"kind": "pool_size", "threads": 0}]}, "faults.inner[0].threads: 0 is wrong"),
        ({"schedule": {"order": "lifo"}}, "faults.schedule.order: 'lifo' is wrong"),
        (
            {"schedule": {"order": "random", "yields": [1]}},
            "faults.schedule: late and yields are deviations from fifo, and order is random",
        ),
        ({"messages": {}}, "faults.messages: {} is wrong: should be a list"),
        ({"heal_s": -1.0}, "faults.heal_s: -1.0 is wrong: should be greater than or equal to 0"),
        ({"version": 7}, "faults.version: 7 is not supported"),
        ({"nodes": []}, "faults.nodes: is no field of a fault plan"),
    ],
)
def test_what_is_wrong_with_a_plan_is_told_with_its_place(change: Any, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(json.dumps(change), workers=3)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_items_that_draw_have_names_of_their_own() -> None:
    items = (p.Drop(probability=0.5), p.Drop(probability=0.5))
    with pytest.raises(ValueError, match=r"messages\[1\].id: 0 is the id of messages\[0\] too"):
        Plan(messages=items)
    check_plan(Plan(messages=(items[0], replace(items[1], id=1))))


def test_a_plan_s_json_says_only_what_is_said() -> None:
    assert plan_to_json(Plan(messages=(p.Drop(nth=(1,)),))) == {
        "version": 1,
        "messages": [{"kind": "drop", "nth": [1]}],
    }


DOCUMENT = DOCS / "faults.md"


def test_the_plan_in_the_documentation_is_one() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)
    plan = load_plan(text, workers=3)
    assert [item.kind for _, _, item in plan.items()] == ["drop", "delay", "partition", "crash"]


def test_the_documentation_names_every_kind() -> None:
    named = re.findall(r"^\| (?:`\w+` )?\| `(\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.M)
    assert {*named, "restart"} == set(p.KINDS)
