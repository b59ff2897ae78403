"""Each kind of fault of a plan: the trace shows that it happened, and the outcome is asserted."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import pytest
import torch

from squall.real import tracing
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.py_rref import RRef
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster
from squall.sim.faults import plan as p
from squall.sim.faults.plan import Plan
from squall.sim.world.trace import Event

BACKWARD = ("BACKWARD_AUTOGRAD_REQ",)
CALL = ("PYTHON_CALL",)

log: list[Any] = []


@pytest.fixture(autouse=True)
def empty_log() -> None:
    log.clear()


def note(what: Any) -> Any:
    log.append(what)
    return what


def note_later(what: Any) -> Any:
    current_task().runtime.sleep(0.01)
    return note(what)


def now() -> float:
    return current_task().runtime.now()


def sleep(seconds: float) -> None:
    current_task().runtime.sleep(seconds)


def times_three(value: torch.Tensor) -> list[torch.Tensor]:
    return [value * 3]


def train(to: str = "worker1", *, hook: Any = None) -> float:
    """A step through another worker: the gradient of 3 x, which is 3."""
    x = torch.ones(1, requires_grad=True)
    if hook is not None:
        x.register_hook(hook)
    with dist_autograd.context() as context_id:
        (y,) = rpc.rpc_sync(to, times_three, args=(x,))
        dist_autograd.backward(context_id, [y.sum()])
        return float(dist_autograd.get_gradients(context_id)[x])


def attempt(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function returns, or the text of its error."""
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        return str(error)


def play(plan: Plan, story: Any = train, **options: Any) -> tuple[Any, Cluster]:
    """``story()`` on worker 0 of three, under a plan; what it returned, and the cluster after it
    has come to rest."""
    options.setdefault("latency", "0.001")
    options.setdefault("rpc_timeout_s", 5.0)
    with Cluster(3, faults=plan, **options) as cluster:
        if plan.workers:
            cluster.on_restart = lambda rank: note(f"worker {rank} is back")
        results = cluster.run(lambda rank: story() if rank == 0 else None, shutdown=False)
        cluster.settle()
        cluster.shutdown()
    return results[0], cluster


def injected(cluster: Cluster, kind: str) -> list[Event]:
    return [event for event in cluster.trace.of(tracing.FAULT_INJECTED) if event["kind"] == kind]


def tables(cluster: Cluster) -> list[tuple[Any, ...]]:
    """What the living workers' tables hold at the end."""
    return [event.values for event in cluster.trace.of(tracing.TABLES_COUNTED)]


EMPTY = (0,) * 8


# -- messages -------------------------------------------------------------------------------------


def test_delay() -> None:
    plan = Plan(messages=(p.Delay(types=BACKWARD, src=0, seconds=2.0),))
    gradient, cluster = play(plan)
    assert gradient == 3.0
    (event,) = injected(cluster, "delay")
    assert (event["item"], event["src"], event["dst"], event["nth"]) == ("messages[0]", 0, 1, 1)
    assert cluster.runtime.now() > 2.0


def test_drop_of_gradients() -> None:
    plan = Plan(messages=(p.Drop(types=BACKWARD, nth=(1,)),))
    (first, second), cluster = play(plan, lambda: (attempt(train), train()))
    assert "RPC ran for more than set timeout (5000 ms)" in first
    assert second == 3.0
    assert len(injected(cluster, "drop")) == 1
    assert set(tables(cluster)) == {EMPTY}


@pytest.mark.parametrize(
    "type",
    ["CLEANUP_AUTOGRAD_CONTEXT_REQ", "CLEANUP_AUTOGRAD_CONTEXT_RESP"],
)
def test_drop_of_what_is_sent_again(type: str) -> None:
    plan = Plan(messages=(p.Drop(types=(type,), nth=(1, 2)),))
    gradient, cluster = play(plan)
    assert gradient == 3.0
    assert len(injected(cluster, "drop")) == 2
    assert cluster.trace.of(tracing.CALL_RETRIED)
    assert set(tables(cluster)) == {EMPTY}


def test_drop_of_a_response() -> None:
    plan = Plan(messages=(p.Drop(types=("PYTHON_RET",), direction="response", nth=(1,)),))
    result, _ = play(plan, lambda: attempt(rpc.rpc_sync, "worker1", note, args=(1,)))
    assert "RPC ran for more than set timeout" in result
    assert log == [1]  # it was done all the same: a call that timed out may have happened


def test_duplicate() -> None:
    plan = Plan(messages=(p.Duplicate(after_s=(0.0, 3.0)),))
    gradient, cluster = play(plan)
    assert gradient == 3.0
    assert len(injected(cluster, "duplicate")) >= 6
    assert cluster.trace.of(tracing.DUPLICATE_IGNORED)
    assert set(tables(cluster)) == {EMPTY}


def test_hold_until_another_was_handled() -> None:
    plan = Plan(
        messages=(
            p.Hold(types=CALL, dst=1, nth=(1,), until=p.Selector(types=CALL, dst=1, nth=(2,))),
        )
    )

    def story() -> list[Any]:
        # The second that is handled, as the first is held, is the third that is sent.
        calls = [rpc.rpc_async("worker1", note, args=(what,)) for what in range(4)]
        return [call.wait() for call in calls]

    assert play(plan, story)[0] == [0, 1, 2, 3]
    assert log[:2] == [1, 2]
    assert 0 in log[2:]


def test_hold_for_the_longest_time() -> None:
    until = p.Selector(types=("RREF_BACKWARD_REQ",))
    plan = Plan(messages=(p.Hold(types=BACKWARD, src=0, until=until, at_most_s=1.5),))
    gradient, cluster = play(plan)
    assert gradient == 3.0
    assert len(injected(cluster, "hold")) == 1
    assert 1.5 < cluster.runtime.now() < 2.0


def test_corrupt() -> None:
    plan = Plan(messages=(p.Corrupt(types=BACKWARD, nth=(1,)),))
    (first, second), cluster = play(plan, lambda: (attempt(train), train()))
    assert "a frame failed its check" in first
    assert second == 3.0
    assert len(injected(cluster, "corrupt")) == 1
    reasons = {event["reason"] for event in cluster.trace.of(tracing.MESSAGE_DROPPED)}
    assert "its frame check failed" in reasons


@pytest.mark.parametrize(("type", "kept"), [("request", False), ("answer", True)])
def test_reset(type: str, kept: bool) -> None:
    """A connection is lost with the first request, or with its answer: then it was handled."""
    types = CALL if type == "request" else ("PYTHON_RET",)
    plan = Plan(messages=(p.Reset(types=types, nth=(1,)),))

    def main() -> tuple[Any, Any, float]:
        failed = attempt(lambda: rpc.rpc_sync("worker1", note, args=(1,)))
        return failed, rpc.rpc_sync("worker1", note, args=(2,)), now()

    (failed, again, end_s), cluster = play(plan, main)
    assert "the connection between workers" in failed
    assert (again, log) == (2, [1, 2] if kept else [2])
    assert end_s < 1
    assert len(injected(cluster, "reset")) == 1


def test_a_reset_takes_along_what_is_under_way_between_the_two() -> None:
    plan = Plan(messages=(p.Reset(types=CALL, nth=(2,), part=0.0),))

    def main() -> list[Any]:
        calls = [rpc.rpc_async("worker1", note, args=(number,)) for number in range(3)]
        return [attempt(call.wait) for call in calls]

    seen, _ = play(plan, main, latency="constant:0.001")
    assert ["connection" in str(each) for each in seen] == [True, True, True]
    assert log == []


def test_a_moment_of_a_type_of_message() -> None:
    """Worker 1 ends between a request and its answer, not with an earlier message."""
    moment = p.Moment(event="handler_started", worker=1, type="PYTHON_REMOTE_CALL")
    plan = Plan(workers=(p.Crash(worker=1, moment=moment),))

    def main() -> tuple[Any, Any]:
        called = rpc.rpc_sync("worker1", note, args=(1,))
        return called, attempt(rpc.remote("worker1", note_later, args=(2,)).to_here)

    (called, failed), cluster = play(plan, main)
    assert called == 1
    assert "worker 1" in failed
    assert len(injected(cluster, "crash")) == 1


def test_a_shutdown_in_a_back_off() -> None:
    """A worker that waits to send a release again shuts down: it is not sent any more."""
    moment = p.Moment(event="call_retried", worker=0, type="CLEANUP_AUTOGRAD_CONTEXT_REQ")
    plan = Plan(
        messages=(p.Fail(types=("CLEANUP_AUTOGRAD_CONTEXT_REQ",), src=0, nth=(1,)),),
        workers=(p.Shutdown(worker=0, moment=moment, at_s=0.5),),
    )

    def main() -> Any:
        train()
        current_task().runtime.sleep(3)
        return attempt(lambda: rpc.rpc_sync("worker1", note, args=(1,)))

    failed, cluster = play(plan, main)
    assert "has not been initialized" in failed
    assert len(injected(cluster, "shutdown")) == 1
    sent = cluster.trace.of(tracing.MESSAGE_SENT)
    releases = [event for event in sent if event["type"] == "CLEANUP_AUTOGRAD_CONTEXT_REQ"]
    assert not [event for event in releases if event["src"] == 0]


def test_fail() -> None:
    plan = Plan(messages=(p.Fail(types=BACKWARD, nth=(1,), error="no buffer space"),))
    (first, second), cluster = play(plan, lambda: (attempt(train), train()))
    assert "no buffer space" in first
    assert second == 3.0
    assert len(injected(cluster, "fail")) == 1


def test_a_probability_draws_for_each_message_by_its_name() -> None:
    def drops(plan: Plan) -> set[int]:
        def story() -> None:
            for number in range(40):
                rpc.rpc_async("worker1", note, args=(number,))
                rpc.rpc_async("worker2", note, args=(number,))

        _, cluster = play(plan, story)
        return {e["nth"] for e in injected(cluster, "drop") if e["dst"] == 1}

    item = p.Drop(types=CALL, probability=0.5, id=3)
    alone = drops(Plan(messages=(item,)))
    assert 10 < len(alone) < 30
    # Another item before it, and fewer messages on the other link: the draws stay.
    other = p.Drop(types=CALL, dst=2, probability=0.5, id=4)
    assert drops(Plan(messages=(other, item))) == alone


def test_a_window_of_time() -> None:
    plan = Plan(messages=(p.Drop(types=CALL, from_s=0.5, until_s=1.5),))

    def story() -> None:
        for number in range(3):
            rpc.rpc_async("worker1", note, args=(number,))
            sleep(1.0)

    play(plan, story)
    assert log == [0, 2]


# -- links and partitions ---------------------------------------------------------------------------


def test_latency_spike() -> None:
    plan = Plan(links=(p.LatencySpike(src=0, dst=1, factor=100.0, extra_s=0.5),))
    (there, back), cluster = play(
        plan, lambda: (rpc.rpc_sync("worker1", now) - now(), 0.0) and round_trip()
    )
    assert there == pytest.approx(0.6)
    assert back == pytest.approx(0.001)
    assert injected(cluster, "latency_spike")


def round_trip() -> tuple[float, float]:
    sent = now()
    arrived = rpc.rpc_sync("worker1", now)
    return arrived - sent, now() - arrived


def test_bandwidth() -> None:
    plan = Plan(links=(p.Bandwidth(src=0, dst=1, bytes_per_s=1000.0),))

    def story() -> float:
        began = now()
        rpc.rpc_sync("worker1", note, args=(torch.zeros(250),))  # a thousand bytes and more
        return now() - began

    took, cluster = play(plan, story)
    assert took > 1.0
    assert injected(cluster, "bandwidth")


def test_loss_one_way() -> None:
    plan = Plan(links=(p.Loss(src=1, dst=0, probability=1.0),))
    result, cluster = play(plan, lambda: attempt(rpc.rpc_sync, "worker1", note, args=(1,)))
    assert "RPC ran for more than set timeout" in result
    assert log == [1]
    assert [event["src"] for event in injected(cluster, "loss")] == [1]


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ("drop", "RPC ran for more than set timeout"),
        ("fail", "no route from worker 0 to 1"),
        ("hold", "1"),
    ],
)
def test_flapping(cut: p.Cut, expected: str) -> None:
    plan = Plan(links=(p.Flapping(src=0, dst=1, period_s=2.0, down_s=1.0, cut=cut),))

    def story() -> tuple[Any, Any, float]:
        began = now()
        down = attempt(rpc.rpc_sync, "worker1", note, args=(1,))
        took = now() - began
        sleep(1.5 - now() % 2.0 if now() % 2.0 < 1.0 else 0.0)
        return down, rpc.rpc_sync("worker1", note, args=(2,)), took

    (down, up, took), cluster = play(plan, story)
    assert expected in str(down)
    assert up == 2
    assert injected(cluster, "flapping")
    if cut == "hold":
        assert took == pytest.approx(1.0, abs=0.01)


def test_fifo() -> None:
    def story() -> None:
        for call in [rpc.rpc_async("worker1", note, args=(n,)) for n in range(20)]:
            call.wait()

    options = {"latency": "uniform:0.001:0.1"}
    play(Plan(), story, **options)
    assert log != sorted(log)
    log.clear()
    _, cluster = play(Plan(links=(p.Fifo(),)), story, **options)
    assert log == sorted(log)
    assert injected(cluster, "fifo")


@pytest.mark.parametrize("cut", ["drop", "fail", "hold"])
def test_a_partition_that_heals(cut: p.Cut) -> None:
    plan = Plan(partitions=(p.Partition(groups=((0,), (1, 2)), until_s=20.0, cut=cut),))

    def story() -> list[Any]:
        during = attempt(train)
        sleep(20.0)
        return [during, train()]

    (during, after), cluster = play(plan, story)
    assert after == 3.0
    assert {"drop": "timeout", "fail": "no route", "hold": "timeout"}[cut] in during
    assert injected(cluster, "partition")
    assert set(tables(cluster)) == {EMPTY}


def test_a_one_way_partition() -> None:
    plan = Plan(partitions=(p.Partition(groups=((1,), (0,)), one_way=True),))
    result, _ = play(plan, lambda: attempt(rpc.rpc_sync, "worker1", note, args=(1,)))
    assert "timeout" in result
    assert log == [1]  # there, but not back


# -- workers ------------------------------------------------------------------------------------------


def test_a_crash_is_seen_at_once() -> None:
    plan = Plan(workers=(p.Crash(worker=1, moment=p.Moment(event="gradients_received", worker=1)),))
    began: list[float] = []

    def story() -> str:
        began.append(now())
        error: str = attempt(train)
        began.append(now())
        return error

    error, cluster = play(plan, story)
    assert "the connection to worker 1 was closed" in error
    assert began[1] - began[0] < 0.1
    (event,) = injected(cluster, "crash")
    assert (event["worker"], event["detail"]) == (1, "reset")
    last_of_1 = max(e.time_s for e in cluster.trace if e.worker == 1)
    assert last_of_1 <= event.time_s


@pytest.mark.parametrize(
    ("event", "on", "expected"),
    [
        ("message_delivered", 1, "the connection to worker 1 was closed"),
        ("message_sent", 1, "the connection to worker 1 was closed"),
        ("message_sent", 2, 3.0),  # which sends nothing
    ],
)
def test_a_moment_may_be_one_of_the_network(event: str, on: int, expected: Any) -> None:
    plan = Plan(workers=(p.Crash(worker=1, moment=p.Moment(event=event, worker=on)),))
    result, cluster = play(plan, lambda: attempt(train))
    if isinstance(expected, str):
        assert expected in result or "worker 1 is not connected" in result
        assert injected(cluster, "crash")
    else:
        assert result == expected
        assert not injected(cluster, "crash")


def test_a_silent_crash_is_seen_by_timeouts() -> None:
    plan = Plan(workers=(p.Crash(worker=1, at_s=0.0, silent=True),))
    (error, other), cluster = play(plan, lambda: (sleep(0.1), attempt(train), train("worker2"))[1:])
    assert "RPC ran for more than set timeout" in error
    assert other == 3.0
    assert injected(cluster, "crash")[0]["detail"] == "silent"


@pytest.mark.parametrize("silent", [False, True])
def test_references_of_a_process_that_has_ended_tell_nobody(silent: bool) -> None:
    """They may go at any time, when somebody collects garbage: no timer, no draw, no message."""
    plan = Plan(workers=(p.Crash(worker=1, at_s=1.0, silent=silent),))
    kept: list[Any] = []

    with Cluster(2, faults=plan, latency="0.001", order="random") as cluster:

        def main(rank: int) -> None:
            if rank == 1:
                kept.append(rpc.remote("worker0", remember))
                kept[0].to_here()
            sleep(3.0)

        cluster.run(main, shutdown=False)
        waiting = cluster.runtime.env.pending
        kept.clear()
        assert cluster.runtime.env.pending == waiting


@pytest.mark.parametrize("silent", [False, True])
def test_a_restarted_worker_trains_again(silent: bool) -> None:
    plan = Plan(workers=(p.Crash(worker=1, at_s=0.5, silent=silent, restart_after_s=3.0),))

    def story() -> list[Any]:
        before = train()
        sleep(1.0)
        return [before, attempt(train), sleep(10.0), train(), rpc.rpc_sync("worker1", remember)]

    (before, during, _, after, incarnation), cluster = play(plan, story)
    assert before == after == 3.0
    assert isinstance(during, str)
    assert incarnation == 1
    assert log == ["worker 1 is back"]
    assert injected(cluster, "restart")


def remember() -> int:
    """State of a process: whatever was there before it was restarted is gone."""
    worker = current_worker()
    assert worker.container is not None
    assert worker.container.num_autograd_contexts() == 0
    return worker.incarnation


def test_what_was_sent_to_a_process_does_not_reach_the_next_one() -> None:
    plan = Plan(
        messages=(p.Delay(types=CALL, dst=1, nth=(1,), seconds=4.0),),
        workers=(p.Crash(worker=1, at_s=1.0, silent=True, restart_after_s=1.0),),
    )

    def story() -> list[Any]:
        early = rpc.rpc_async("worker1", note, args=("for the first process",), timeout=0)
        sleep(3.0)
        return [attempt(early.wait), sleep(5.0), rpc.rpc_sync("worker1", note, args=("second",))]

    (early, _, late), cluster = play(plan, story)
    assert "the connection to worker 1 was closed" in early
    assert late == "second"
    assert log == ["worker 1 is back", "second"]
    reasons = [event["reason"] for event in cluster.trace.of(tracing.MESSAGE_DROPPED)]
    assert "its process is gone" in reasons


def test_ids_of_a_restarted_worker_are_new() -> None:
    plan = Plan(workers=(p.Crash(worker=0, at_s=1.0, restart_after_s=1.0),))
    contexts: list[int] = []

    def story(rank: int) -> None:
        if rank == 0:
            with dist_autograd.context() as context_id:
                contexts.append(context_id)
                sleep(10.0)

    with Cluster(2, faults=plan, latency="0.001") as cluster:

        def again(rank: int) -> None:
            with dist_autograd.context() as context_id:
                contexts.append(context_id)
            log.append(train())

        cluster.on_restart = again
        cluster.run(story, shutdown=False)
        cluster.settle()
        cluster.shutdown()
    assert len(set(contexts)) == 2
    assert log == [3.0]


def test_pause() -> None:
    plan = Plan(workers=(p.Pause(worker=1, at_s=0.0, for_s=3.0),))

    def story() -> tuple[float, float]:
        sleep(0.01)
        began = now()
        return train(), now() - began

    (gradient, took), cluster = play(plan, story)
    assert gradient == 3.0
    assert took == pytest.approx(3.0, abs=0.1)
    (event,) = injected(cluster, "pause")
    during = [
        e for e in cluster.trace if e.worker == 1 and event.time_s < e.time_s < event.time_s + 3.0
    ]
    assert during == []


def test_a_pause_longer_than_the_timeouts_of_its_worker() -> None:
    """Worker 0 is paused with a call under way: when it wakes, reply and timeout are both there."""
    plan = Plan(
        messages=(p.Delay(types=("PYTHON_RET",), seconds=1.0),),
        workers=(p.Pause(worker=0, at_s=0.5, for_s=20.0),),
    )

    def story() -> Any:
        return attempt(rpc.rpc_sync, "worker1", note, args=(1,))

    result, cluster = play(plan, story)
    assert result == 1  # it came first
    assert cluster.runtime.now() > 20.0


def test_slow_cpu() -> None:
    plan = Plan(workers=(p.SlowCpu(worker=1, factor=1000.0, for_s=1.0),))

    def story() -> list[float]:
        took = []
        for _ in range(2):
            began = now()
            assert train() == 3.0
            took.append(now() - began)
            sleep(2.0)
        return took

    (slow, fast), cluster = play(plan, story)
    assert slow > 0.02 > 0.01 > fast
    assert injected(cluster, "slow_cpu")


def test_slow_start() -> None:
    plan = Plan(workers=(p.SlowStart(worker=2, delay_s=7.0),))
    began, cluster = play(plan, now)
    assert began > 7.0
    assert injected(cluster, "slow_start")


@pytest.mark.parametrize("graceful", [False, True])
def test_shutdown_at_a_moment(graceful: bool) -> None:
    plan = Plan(
        workers=(
            p.Shutdown(
                worker=1, graceful=graceful, moment=p.Moment(event="send_attached", worker=1)
            ),
        )
    )

    def story() -> tuple[Any, Any]:
        return attempt(train), train("worker2")

    (first, second), cluster = play(plan, story)
    assert second == 3.0
    assert injected(cluster, "shutdown")
    if graceful:  # it waits for the others, and serves them meanwhile
        assert first == 3.0
    else:
        assert isinstance(first, str)


# -- inside a worker --------------------------------------------------------------------------------


def test_pool_size() -> None:
    """With one thread, a call that calls back to its caller's worker and on has no place."""
    plan = Plan(inner=(p.PoolSize(worker=1, threads=1),))

    def story() -> Any:
        return attempt(rpc.rpc_sync, "worker1", call_back_to_1, timeout=5.0)

    result, cluster = play(plan, story)
    assert "RPC ran for more than set timeout" in str(result)
    assert play(Plan(), story)[0] == "there"
    assert injected(cluster, "pool_size")[0]["detail"] == 1


def call_back_to_1() -> Any:
    return rpc.rpc_sync("worker2", call_1, timeout=5.0)


def call_1() -> Any:
    return rpc.rpc_sync("worker1", note, args=("there",), timeout=5.0)


@pytest.mark.parametrize("worker", [0, 1])
def test_allocation(worker: int) -> None:
    plan = Plan(inner=(p.Allocation(worker=worker, nth=1),))
    (first, second), cluster = play(plan, lambda: (attempt(train), train()))
    assert f"injected: can't allocate memory for node 1 of worker {worker}" in first
    assert second == 3.0
    assert len(injected(cluster, "allocation")) == 1
    assert set(tables(cluster)) == {EMPTY}


@pytest.mark.parametrize("where", ["udf", "backward", "pickle", "unpickle"])
@pytest.mark.parametrize("worker", [0, 1])
def test_raise(where: Any, worker: int) -> None:
    plan = Plan(inner=(p.Raise(worker=worker, where=where, nth=1),))

    def story() -> list[Any]:
        results = []
        for _ in range(2):
            try:
                results.append(train())
            except Exception as error:
                results.append(str(error))
        return results

    (first, second), cluster = play(plan, story)
    expected = f"injected: {where} 1 of worker {worker} fails"
    if where == "udf" and worker == 0:  # nobody calls a function there
        assert not injected(cluster, "raise")
        assert (first, second) == (3.0, 3.0)
        return
    assert expected in first
    assert second == 3.0
    assert len(injected(cluster, "raise")) == 1
    assert set(tables(cluster)) == {EMPTY}


def test_raise_in_a_hook() -> None:
    plan = Plan(inner=(p.Raise(worker=0, where="hook", nth=1),))
    look: Any = lambda grad: None  # noqa: E731
    (first, second), _ = play(plan, lambda: (attempt(train, hook=look), train(hook=look)))
    assert "injected: hook 1 of worker 0 fails" in first
    assert second == 3.0


class Cycle:
    def __init__(self) -> None:
        self.me = self


def test_garbage() -> None:
    plan = Plan(inner=(p.Garbage(worker=0, at_s=1.0),))

    def story() -> tuple[bool, bool]:
        held = Cycle()
        alive = weakref.ref(held)
        del held
        before = alive() is not None
        sleep(2.0)
        return before, alive() is not None

    enabled = gc.isenabled()
    result, cluster = play(plan, story)
    assert gc.isenabled() == enabled
    assert result == (True, False)
    assert injected(cluster, "garbage")


def test_a_clock_that_is_fast() -> None:
    plan = Plan(
        messages=(p.Drop(types=CALL, dst=1),),
        inner=(p.ClockSkew(worker=0, offset_s=100.0, rate=2.0),),
    )

    def story() -> tuple[float, Any]:
        began = now()
        error = attempt(rpc.rpc_sync, "worker1", note, args=(1,))
        assert now() - began == pytest.approx(5.0)  # by its own clock
        return began, error

    (began, error), cluster = play(plan, story)
    assert began > 100.0
    assert "timeout" in error
    (ended,) = [e for e in cluster.trace.of(tracing.CALL_ENDED) if e["outcome"] == "timeout"]
    (sent,) = [
        e for e in cluster.trace.of(tracing.CALL_STARTED) if (e.worker, e["id"]) == (0, ended["id"])
    ]
    assert ended.time_s - sent.time_s == pytest.approx(2.5)  # by anybody else's
    assert injected(cluster, "clock_skew")


def test_a_clock_that_was_fast_runs_as_the_others_once_it_is_healed() -> None:
    plan = Plan(inner=(p.ClockSkew(worker=0, offset_s=100.0, rate=5.0),), heal_s=2.0)

    def story() -> list[float]:
        shown = [now()]
        for _ in range(2):
            sleep(20.0)  # of its own seconds: the faults end in the first
            shown.append(now())
        return shown

    (first, second, third), cluster = play(plan, story)
    (healed,) = cluster.trace.of(tracing.FAULTS_HEALED)
    assert second - first >= 10.0  # no clock jumps back
    assert third - second == pytest.approx(20.0)
    assert cluster.runtime.now() > healed.time_s + 20.0


def test_who_waits_by_a_clock_that_is_late_gives_up_in_time() -> None:
    """What is left of the time by the worker's clock, which is before 128 s then, may be too little to
    move the true one, which is past it and has a bit less behind the point."""
    plan = Plan(inner=(p.ClockSkew(worker=0, offset_s=-32.3),), heal_s=1e6)
    numbers = random.Random(0)

    def wait(begin_s: float, wake_s: float) -> None:
        runtime = current_task().runtime
        sleep(begin_s)
        lock = runtime.lock()
        condition = runtime.condition(lock)
        runtime.call_later(wake_s, condition.notify_all)
        with lock:
            before = now()
            assert not condition.wait_for(lambda: False, 100.0)
            note(now() - before)

    def story() -> None:
        runtime = current_task().runtime
        for number in range(40):
            times = 28 + 30 * numbers.random(), 90 * numbers.random()
            runtime.spawn(wait, *times, name=f"waits {number}", worker=current_worker())

    _, cluster = play(plan, story)
    assert log == [pytest.approx(100.0)] * 40
    assert injected(cluster, "clock_skew")


# -- the plan as a whole ------------------------------------------------------------------------------


def test_healing_ends_everything() -> None:
    plan = Plan(
        messages=(p.Drop(types=BACKWARD), p.Hold(types=CALL, dst=2, until=p.Selector(src=9))),
        partitions=(p.Partition(groups=((0,), (1,)), from_s=1.0),),
        links=(p.LatencySpike(extra_s=3.0),),
        workers=(p.Pause(worker=2, at_s=0.0, for_s=1e6), p.SlowCpu(worker=1, factor=1e4)),
        heal_s=10.0,
    )

    def story() -> list[Any]:
        held = rpc.rpc_async("worker2", note, args=("held",), timeout=0)
        return [attempt(train), sleep(10.0), train(), train("worker2"), held.wait(), now()]

    (first, _, second, third, held, end), cluster = play(plan, story)
    assert isinstance(first, str)
    assert (second, third, held) == (3.0, 3.0, "held")
    assert end < 30.0
    (healed,) = cluster.trace.of(tracing.FAULTS_HEALED)
    assert all(e.time_s <= healed.time_s for e in cluster.trace.of(tracing.FAULT_INJECTED))


def test_an_empty_plan_changes_nothing() -> None:
    digests = {play(plan)[1].trace.digest() for plan in (Plan(), Plan(heal_s=0.5))}
    assert len(digests) == 1


@pytest.mark.parametrize("order", ["fifo", "random", "pct"])
def test_the_same_plan_makes_the_same_run(order: p.Order) -> None:
    plan = Plan(
        messages=(p.Delay(probability=0.3, seconds=0.1, spread_s=1.0, id=1),),
        links=(p.Loss(probability=0.05, id=2),),
        workers=(p.Crash(worker=2, at_s=1.0, restart_after_s=1.0),),
        schedule=p.Schedule(order=order),
    )

    def story() -> list[Any]:
        return [attempt(train, f"worker{1 + n % 2}") for n in range(6)]

    runs = [play(plan, story, latency="lognormal:0.001:0.5", seed=5) for _ in range(2)]
    assert runs[0][0] == runs[1][0]
    assert runs[0][1].trace.digest() == runs[1][1].trace.digest()


def test_a_value_of_an_owner_that_was_restarted_is_not_found() -> None:
    """A reference to what an earlier process held gives an error, never another's value."""
    plan = Plan(workers=(p.Crash(worker=1, at_s=1.0, restart_after_s=1.0),))

    def story() -> tuple[Any, Any]:
        old: RRef[Any] = rpc.remote("worker1", note, args=("old",))
        assert old.to_here() == "old"
        sleep(5.0)
        new: RRef[Any] = rpc.remote("worker1", note, args=("new",))
        return attempt(old.to_here), new.to_here()

    (old, new), _ = play(plan, story)
    assert new == "new"
    assert old != "old"
    assert isinstance(old, str)
