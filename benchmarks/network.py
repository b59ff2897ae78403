"""What one message through the simulated network costs, and where the time goes.

Send, latency, trace events, delivery; no agent, no handler.
"""

from __future__ import annotations

import time

from squall.real.rpc.message import Message
from squall.real.rpc.message_type import MessageType
from squall.sim.world.network import Network
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.trace import Trace

MESSAGES = 20_000
IN_FLIGHT = 10


def microseconds_per_message(latency: str, *, messages: int = MESSAGES) -> float:
    """Microseconds a message on one link, ``IN_FLIGHT`` under way at a time."""
    runtime = SimRuntime()
    network = Network(runtime, latency=latency, tracer=Trace().tracer(runtime))
    store = network.store("group")
    network.attach(store, 1, lambda message: None, lambda *_: None)
    started = time.perf_counter()
    for id in range(messages):
        network.send(store, Message(MessageType.PYTHON_CALL, b"payload", id=id, src=0, dst=1))
        if id % IN_FLIGHT == IN_FLIGHT - 1:
            runtime.run()
    return (time.perf_counter() - started) / messages * 1e6


def measure(rounds: int = 3) -> dict[str, float]:
    """Medians in microseconds, by latency model."""
    return {
        latency: sorted(microseconds_per_message(latency) for _ in range(rounds))[rounds // 2]
        for latency in ("0", "constant:0.001", "lognormal:0.001:0.5")
    }


if __name__ == "__main__":
    for latency, cost in measure().items():
        print(f"{latency:24} {cost:6.1f} us")
