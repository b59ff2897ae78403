"""The network carries copies, in the order that latency gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.real.worker import Worker
from squall.sim.world.network import Network
from squall.sim.world.processes import Clock, processes_of
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.streams import NamedStream
from squall.sim.world.trace import Trace


def arrivals(latency: str, seed: int = 0, messages: int = 20) -> list[tuple[float, int]]:
    runtime = SimRuntime(seed=seed)
    network = Network(runtime, latency=latency)
    store = network.store("group")
    log: list[tuple[float, int]] = []
    network.attach(store, 1, lambda m: log.append((runtime.now(), m.id)), lambda *_: None)
    for id in range(messages):
        network.send(store, Message(MessageType.PYTHON_CALL, id=id, src=0, dst=1))
    runtime.run()
    return log


def test_constant_latency_keeps_the_order() -> None:
    assert arrivals("constant:0.5", messages=3) == [(0.5, 0), (0.5, 1), (0.5, 2)]


def test_random_latency_reorders_and_the_seed_brings_the_order_back() -> None:
    ids = [id for _, id in arrivals("lognormal:0.001:0.5", seed=1)]
    assert sorted(ids) == list(range(20))
    assert ids != sorted(ids)
    assert arrivals("lognormal:0.001:0.5", seed=1) == arrivals("lognormal:0.001:0.5", seed=1)
    assert arrivals("lognormal:0.001:0.5", seed=1) != arrivals("lognormal:0.001:0.5", seed=2)


def test_a_message_less_on_one_link_changes_nothing_on_another() -> None:
    def on_link_two(noise: int) -> list[float]:
        runtime = SimRuntime(seed=5)
        network = Network(runtime, latency="uniform:0.001:0.1")
        store = network.store("group")
        times: list[float] = []
        network.attach(store, 1, lambda m: None, lambda *_: None)
        network.attach(store, 2, lambda m: times.append(runtime.now()), lambda *_: None)
        for n in range(10):
            if n < noise:
                network.send(store, Message(MessageType.PYTHON_CALL, src=0, dst=1))
            network.send(store, Message(MessageType.PYTHON_CALL, src=0, dst=2))
        runtime.run()
        return times

    assert on_link_two(10) == on_link_two(3)


def test_what_arrives_is_a_copy() -> None:
    runtime = SimRuntime()
    network = Network(runtime, latency="constant:1")
    store = network.store("group")
    got: list[Message] = []
    network.attach(store, 1, got.append, lambda *_: None)
    tensor = torch.tensor([1.0, 2.0], requires_grad=True)
    network.send(store, Message(MessageType.PYTHON_CALL, b"x", [tensor], src=0, dst=1))
    with torch.no_grad():
        tensor.zero_()
    runtime.run()

    [message] = got
    [copy] = message.tensors
    assert copy.tolist() == [1.0, 2.0]
    assert copy.requires_grad and copy.is_leaf


def test_bandwidth_makes_messages_queue() -> None:
    runtime = SimRuntime()
    network = Network(runtime, latency="constant:1", bandwidth_bytes_per_s=100.0)
    store = network.store("group")
    times: list[float] = []
    network.attach(store, 1, lambda m: times.append(runtime.now()), lambda *_: None)
    for _ in range(2):
        network.send(store, Message(MessageType.PYTHON_CALL, b"x" * 50, src=0, dst=1))
    runtime.run()

    assert times == [1.5, 2.0]


def test_nobody_there_is_a_connection_error_now_and_a_drop_later() -> None:
    runtime = SimRuntime()
    trace = Trace()
    network = Network(runtime, latency="constant:1", tracer=trace.tracer(runtime))
    store = network.store("group")
    with pytest.raises(ConnectionError, match="worker 1 is not connected"):
        network.send(store, Message(MessageType.PYTHON_CALL, src=0, dst=1))

    lost: list[tuple[int, str]] = []
    network.attach(store, 0, lambda m: None, lambda id, why, ended: lost.append((id, why)))
    network.attach(store, 1, lambda m: None, lambda *_: None)
    network.send(store, Message(MessageType.PYTHON_CALL, src=0, dst=1))
    network.detach(store, 1)
    runtime.run()

    assert lost == [(1, "the connection to worker 1 was closed")]
    assert [event.type.name for event in trace] == ["message_sent", "message_dropped"]


def test_named_streams_are_uniform_enough_and_repeat() -> None:
    stream = NamedStream(7)
    draws = [stream.named(b"link 0->1/%d" % n).random() for n in range(2000)]
    assert all(0.0 <= draw < 1.0 for draw in draws)
    assert 0.47 < sum(draws) / len(draws) < 0.53
    assert stream.named(b"link 0->1/5").random() == draws[5]
    assert 0 <= stream.named(b"die").randint(1, 6) <= 6


def test_a_store_ends_with_the_last_process_that_was_there() -> None:
    """The next processes that meet at its address form a group of their own."""
    runtime = SimRuntime()
    network = Network(runtime)
    one, other = (Worker(runtime, network, name=name) for name in ("one", "other"))
    stores = {}

    def visit(worker: Worker) -> None:
        stores[worker.name] = network.store("tcp://here:1")

    for worker in (one, other):
        runtime.spawn(visit, worker, name="main", worker=worker)
    runtime.run()
    network.leave(one)
    assert network.store("tcp://here:1") is stores["one"] is stores["other"]
    network.leave(other)
    assert network.store("tcp://here:1") is not stores["one"]


@pytest.mark.parametrize("rate", [0.5, 1.0, 5.0])
def test_a_connection_ends_behind_what_was_sent_by_whatever_clock(rate: float) -> None:
    runtime = SimRuntime()
    network = Network(runtime, latency="constant:1")
    store = network.store("group")
    leaving = Worker(runtime, network, name="leaving")
    runtime.clocks = {leaving: Clock(rate=rate)}
    log: list[tuple[str, int]] = []

    def told(what: str) -> Callable[..., object]:
        return lambda *_: log.append((what, round(runtime.now())))

    def leave() -> None:
        network.attach(store, 1, told("nothing"), told("nothing"))
        network.connect(store, [0, 1])
        network.send(store, Message(MessageType.COLLECTIVE, src=1, dst=0))
        network.detach(store, 1)

    network.attach(store, 0, told("a message"), told("the end"))
    runtime.spawn(leave, name="main", worker=leaving)
    runtime.run()
    assert log == [("a message", 1), ("the end", 1)]


@pytest.mark.parametrize("kept", [True, False], ids=["delivered", "dropped"])
def test_a_connection_ends_behind_what_is_held(kept: bool) -> None:
    runtime = SimRuntime()
    network = Network(runtime, latency="constant:1")
    store = network.store("group")
    log: list[str] = []
    for member in (0, 1, 2):
        network.attach(
            store,
            member,
            lambda message, me=member: log.append(f"{me} hears of {message.src}"),
            lambda lost, *_, me=member: log.append(f"{me} sees the end of {lost}"),
        )
    network.connect(store, [0, 1, 2])
    with network.hold(dst=0) as held:
        for member in (0, 2):
            network.send(store, Message(MessageType.COLLECTIVE, src=1, dst=member))
        network.detach(store, 1)
        runtime.run()
        assert log == ["2 hears of 1", "2 sees the end of 1"]
        if not kept:
            held.drop()
    runtime.run()
    assert log[2:] == ["0 hears of 1"] * kept + ["0 sees the end of 1"]


@pytest.mark.parametrize("seed", range(4))
def test_a_paused_worker_sees_the_end_of_a_connection_behind_what_has_come(seed: int) -> None:
    runtime = SimRuntime(seed=seed, order="random")
    network = Network(runtime, latency="constant:1")
    store = network.store("group")
    paused = Worker(runtime, network, name="paused")
    log: list[str] = []

    def enter() -> None:
        network.attach(
            store, 0, lambda _: log.append("a message"), lambda *_: log.append("the end")
        )

    network.attach(store, 1, lambda _: None, lambda *_: None)
    runtime.spawn(enter, name="main", worker=paused)
    runtime.run()
    network.connect(store, [0, 1])
    processes = processes_of(runtime)
    processes.pause(paused)
    network.send(store, Message(MessageType.COLLECTIVE, src=1, dst=0))
    runtime.run()
    network.detach(store, 1)
    runtime.run()
    assert log == []
    processes.resume(paused)
    runtime.run()
    assert log == ["a message", "the end"]
