"""Faults laid on the network by hand: any interleaving is a few lines."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from squall.real import tracing
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.rpc.py_rref import RRef
from squall.real.runtime import current_task
from squall.sim.cluster import Cluster
from squall.sim.world.frames import checksum, flip
from squall.sim.world.network import Network
from squall.sim.world.rules import Corrupt, delay, drop, duplicate, fail
from squall.sim.world.streams import NamedStream

CALL, RET = MessageType.PYTHON_CALL, MessageType.PYTHON_RET
BACKWARD = MessageType.BACKWARD_AUTOGRAD_REQ
CLEANUP = MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ

log: list[Any] = []


@pytest.fixture(autouse=True)
def empty_log() -> None:
    log.clear()


def note(what: Any) -> Any:
    log.append(what)
    return what


def times_three(value: torch.Tensor) -> torch.Tensor:
    return value * 3


def fetch(rref: RRef[Any]) -> Any:
    return rref.to_here()


def train() -> float:
    """A step through worker 1: the gradient of 3 x, which is 3."""
    x = torch.ones(1, requires_grad=True)
    with dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", times_three, args=(x,))
        dist_autograd.backward(context_id, [y.sum()])
        return float(dist_autograd.get_gradients(context_id)[x])


def play(story: Any, **options: Any) -> tuple[Any, Cluster]:
    """``story(network)`` on worker 0 of three."""
    options.setdefault("latency", "0.001")
    with Cluster(3, **options) as cluster:
        results = cluster.run(
            lambda rank: story(cluster.network) if rank == 0 else None, shutdown=False
        )
        cluster.settle()
        cluster.shutdown()
    return results[0], cluster


def injected(cluster: Cluster) -> list[str]:
    return [event["kind"] for event in cluster.trace.of(tracing.FAULT_INJECTED)]


def test_a_rule_heals_as_its_block_ends() -> None:
    def story(network: Network) -> float:
        with (
            network.rule(drop(src=0, dst=1, kind=BACKWARD)),
            pytest.raises(RuntimeError, match="RPC ran for more than set timeout"),
        ):
            train()
        return train()

    gradient, cluster = play(story, rpc_timeout_s=2.0)
    assert gradient == 3.0
    assert injected(cluster) == ["drop"]


def test_two_calls_are_delivered_in_the_other_order() -> None:
    def story(network: Network) -> None:
        with network.hold(kind=CALL, dst=1) as held:
            calls = [rpc.rpc_async("worker1", note, args=(what,)) for what in ("first", "second")]
            first, second = held.wait(2)
            held.deliver(second)
            calls[1].wait()
            held.deliver(first)
            calls[0].wait()

    play(story)
    assert log == ["second", "first"]


def test_what_is_left_goes_when_nobody_holds_it_any_more() -> None:
    def story(network: Network) -> list[Any]:
        with network.hold(kind=CALL, dst=1) as held:
            calls = [rpc.rpc_async("worker1", note, args=(what,)) for what in range(3)]
            held.wait(3)
            with pytest.raises(TimeoutError, match=r"3 messages are held after 1\.0 s, not 4"):
                held.wait(4, timeout_s=1.0)
            held.drop()
        return [calls[1].wait(), calls[2].wait()]

    results, _ = play(story, rpc_timeout_s=5.0)
    assert results == [1, 2]
    assert log == [1, 2]


def test_a_message_in_flight_is_delivered_by_hand() -> None:
    def story(network: Network) -> float:
        future = rpc.rpc_async("worker1", note, args=("early",))
        (message,) = [message for message in network.in_flight() if message.type is CALL]
        network.deliver(message)
        future.wait()
        with pytest.raises(LookupError, match="not under way"):
            network.deliver(message)
        return network.runtime.now()

    before, _ = play(lambda network: network.runtime.now())
    now, _ = play(story)
    # Only the answer took its time: a millisecond instead of two.
    assert now - before == pytest.approx(0.001)
    assert log == ["early"]


def test_gradients_that_come_after_the_clean_up_are_refused() -> None:
    """BWD 0->1 after CLEAN 0->1, which a caller can bring about who does not wait."""

    def story(network: Network) -> str:
        x = torch.ones(1, requires_grad=True)
        with network.hold(kind=BACKWARD) as held:
            with dist_autograd.context() as context_id:
                y = rpc.rpc_sync("worker1", times_three, args=(x,))
                task = rpc.rpc_async("worker0", run_backward, args=(context_id, RRef(y)))
                held.wait()
            current_task().runtime.sleep(1.0)  # worker 1 has released the context
            held.deliver()
            try:
                task.wait()
            except RuntimeError as error:
                return str(error)
        return "no error"

    error, _ = play(story)
    assert "autograd context" in error


def run_backward(context_id: int, root: RRef[torch.Tensor]) -> None:
    dist_autograd.backward(context_id, [root.local_value().sum()])


def test_a_copy_of_a_request_is_not_run_and_one_of_a_reply_not_taken() -> None:
    def story(network: Network) -> list[Any]:
        with (
            network.rule(duplicate(0.0, 5.0, kind=CALL)),
            network.rule(duplicate(0.0, 5.0, kind=RET)),
        ):
            values = [rpc.rpc_sync("worker1", note, args=(what,)) for what in "ab"]
            current_task().runtime.sleep(10.0)
        return values

    values, cluster = play(story)
    assert values == ["a", "b"]
    assert log == ["a", "b"]
    assert len(cluster.trace.of(tracing.DUPLICATE_IGNORED)) == 4
    assert injected(cluster) == ["duplicate"] * 4


def test_copied_gradients_are_accumulated_once() -> None:
    def story(network: Network) -> float:
        with network.rule(duplicate(0.0, 0.01)):
            return train()

    gradient, cluster = play(story)
    assert gradient == 3.0
    assert cluster.trace.of(tracing.DUPLICATE_IGNORED)


def test_the_second_of_a_kind_is_delayed() -> None:
    def story(network: Network) -> None:
        with network.rule(delay(1.0, kind=CALL, dst=1, nth=2)):
            calls = [rpc.rpc_async("worker1", note, args=(what,)) for what in range(3)]
            for call in calls:
                call.wait()

    play(story)
    assert log == [0, 2, 1]


def test_an_error_at_send_is_the_call_s_error() -> None:
    def story(network: Network) -> None:
        with network.rule(fail("the cable is cut", kind=CALL, dst=1)):
            with pytest.raises(RuntimeError, match="the cable is cut"):
                rpc.rpc_sync("worker1", note, args=(1,))
            assert rpc.rpc_sync("worker2", note, args=(2,)) == 2

    _, cluster = play(story)
    assert log == [2]
    assert injected(cluster) == ["fail"]


def test_a_changed_byte_is_found_and_breaks_the_connection() -> None:
    def story(network: Network) -> Any:
        stream = NamedStream(0).named(b"flips")
        corrupt_first = iter([Corrupt(1, stream)])
        with network.rule(
            lambda message: (
                next(corrupt_first, None) if message.type is CALL and message.dst == 1 else None
            )
        ):
            with pytest.raises(RuntimeError, match="a frame failed its check"):
                rpc.rpc_sync("worker1", note, args=("never",))
            return rpc.rpc_sync("worker1", note, args=("again",))

    value, cluster = play(story)
    assert value == "again"
    assert log == ["again"]
    dropped = cluster.trace.of(tracing.MESSAGE_DROPPED)
    assert [event["reason"] for event in dropped] == ["its frame check failed"]


@pytest.mark.parametrize(
    "tensors",
    [
        [],
        [torch.ones(3)],
        [torch.tensor(2.0)],
        [torch.eye(3).to_sparse()],
        [torch.zeros(0), torch.ones(2, dtype=torch.bool)],
        [torch.ones(2, requires_grad=True)],
    ],
    ids=["none", "dense", "scalar", "sparse", "empty and bool", "with gradient"],
)
@pytest.mark.parametrize("payload", [b"", b"payload"])
def test_every_single_changed_byte_changes_the_checksum(
    payload: bytes, tensors: list[torch.Tensor]
) -> None:
    for number in range(50):
        message = Message(CALL, payload, tensors, id=7, src=0, dst=1).copy()
        before = checksum(message)
        assert checksum(message) == before
        flip(message, 1, NamedStream(0).named(b"%d" % number))
        assert checksum(message) != before


def test_the_same_rules_make_the_same_run() -> None:
    def story(network: Network) -> float:
        with network.rule(duplicate(0.5, kind=BACKWARD)), network.rule(delay(0.2, kind=RET)):
            return train()

    digests = {play(story, latency="lognormal:0.001:0.5")[1].trace.digest() for _ in range(2)}
    assert len(digests) == 1


def test_workers_come_and_go_by_hand() -> None:
    """Crash, restart and pause from another worker's task."""
    with Cluster(3, latency="0.001", rpc_timeout_s=5.0) as cluster:

        def main(rank: int) -> None:
            if rank != 0:
                return
            assert train() == 3.0
            cluster.crash(1)
            with pytest.raises(RuntimeError, match="worker 1 is not connected"):
                train()
            assert not cluster.crash(1)
            cluster.restart(1)
            current_task().runtime.sleep(0.1)
            assert train() == 3.0
            cluster.processes.pause(cluster.workers[1])
            with pytest.raises(RuntimeError, match="RPC ran for more than set timeout"):
                train()
            cluster.processes.resume(cluster.workers[1])
            assert train() == 3.0
            with pytest.raises(RuntimeError, match="cannot end its own process"):
                cluster.crash(0)

        cluster.run(main, shutdown=False)
        cluster.settle()
        assert cluster.call({0: train, 2: train}) == {0: 3.0, 2: 3.0}
        cluster.shutdown()
    assert list(cluster.casualties) == [1]
    assert cluster.workers[1].incarnation == 1


def test_a_type_may_be_given_by_its_name() -> None:
    def story(network: Network) -> float:
        with network.rule(delay(1.0, kind=["BACKWARD_AUTOGRAD_REQ", CLEANUP])):
            return train()

    gradient, cluster = play(story)
    assert gradient == 3.0
    assert cluster.runtime.now() > 2.0
    with pytest.raises(ValueError, match="'BWD' is no message type; there are SCRIPT_CALL"):
        drop(kind="BWD")
