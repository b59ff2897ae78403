"""Rules on the network, and the end of a connection."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.sim.world.network import Network
from squall.sim.world.rules import Delay, Drop, Fail, Rule, delay, drop, duplicate
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.trace import Trace

CALL, CLEANUP = MessageType.PYTHON_CALL, MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ


class World:
    """Worker 1 and a log of what reaches it, each with the virtual time."""

    def __init__(self, *rules: Rule, latency: str = "constant:1") -> None:
        self.runtime = SimRuntime()
        self.trace = Trace()
        tracer = self.trace.tracer(self.runtime)
        self.network = Network(self.runtime, latency=latency, tracer=tracer)
        self.group = self.network.store("group")
        self.log: list[tuple[float, object]] = []
        for worker_id in (0, 1):
            self.network.attach(self.group, worker_id, self.receive, self.lost)
        for rule in rules:
            self.network.add_rule(rule)

    def receive(self, message: Message) -> None:
        self.log.append((self.runtime.now(), message.type))

    def lost(self, peer: int, reason: str, ended: int | None = None) -> None:
        self.log.append((self.runtime.now(), f"lost {peer}"))

    def send(self, type: MessageType, src: int = 0, dst: int = 1) -> None:
        self.network.send(self.group, Message(type, src=src, dst=dst))


def test_a_delay_adds_to_the_latency():
    world = World(lambda message: Delay(5) if message.type == CALL else None)
    world.send(CALL)
    world.send(CLEANUP)
    world.runtime.run()
    assert world.log == [(1, CLEANUP), (6, CALL)]


def test_what_is_dropped_never_arrives_and_the_trace_says_why():
    world = World(lambda message: Drop("partition"))
    world.send(CALL)
    world.runtime.run()
    assert world.log == []
    assert [event.type.name for event in world.trace] == [
        "message_sent",
        "fault_injected",
        "message_dropped",
    ]
    assert list(world.trace)[-1]["reason"] == "partition"


def test_what_fails_is_told_to_the_sender_and_not_sent():
    world = World(lambda message: Fail("the cable is cut"))
    with pytest.raises(ConnectionError, match="the cable is cut"):
        world.send(CALL)
    assert [event.type.name for event in world.trace] == ["fault_injected"]


def test_the_first_rule_that_does_not_pass_decides():
    world = World(lambda _: None, lambda _: Delay(1), lambda _: Drop("too late to ask"))
    world.send(CALL)
    world.runtime.run()
    assert world.log == [(2, CALL)]


def test_a_rule_may_be_for_one_group_and_may_be_taken_away():
    def rule(message: Message) -> Drop:
        return Drop("partition")

    world = World()
    world.network.add_rule(rule, group=world.network.store("another group"))
    world.send(CALL)
    world.network.remove_rule(rule)
    with pytest.raises(ValueError, match="no such rule"):
        world.network.remove_rule(rule)
    world.network.add_rule(rule)
    world.send(CALL)
    world.network.remove_rule(rule)
    world.send(CALL)
    world.runtime.run()
    assert [what for _, what in world.log] == [CALL, CALL]


def test_what_was_sent_before_a_connection_closed_arrives_before_its_end():
    world = World(latency="constant:3")
    world.send(CALL, src=1, dst=0)  # so that 1 has a connection to lose
    world.runtime.run()
    world.log.clear()
    world.send(MessageType.PYTHON_RET)
    world.network.detach(world.group, 0)
    world.runtime.run()
    assert [what for _, what in world.log] == [MessageType.PYTHON_RET, "lost 0"]
    assert world.log[0][0] == 6


def test_a_closed_connection_with_nothing_under_way_is_noticed_at_once():
    world = World(latency="constant:3")
    world.send(CALL, src=1, dst=0)
    world.runtime.run()
    world.log.clear()
    world.network.detach(world.group, 0)
    assert world.log == [(3, "lost 0")]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: drop(nth=(0,)), "nth: \\(0,\\) selects nothing"),
        (lambda: drop(nth=()), "nth: \\(\\) selects nothing"),
        (lambda: drop(src=-1), "src: -1 is no worker"),
        (lambda: delay(-1.0), "seconds: -1.0 is wrong"),
        (lambda: delay(math.nan), "seconds: nan is wrong"),
        (lambda: duplicate(1.0, math.inf), "after_s: inf is wrong"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(make: Callable[[], Rule], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
