"""What a message costs beside general simulators for asyncio: the same 100 round trips on each.

seedloop and simloom (PyPI) run asyncio programs in virtual time. Both need Python 3.12; this
module, without squall, is run by whatever interpreter has them: the running one, or one in an
environment of their own, which is made under ``.squall/`` at the first run.

    python -m benchmarks.round_trips
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TRIPS = 100
ROUNDS = 15
#: bytes of a request, and of a reply
PAYLOAD = b"payload"
PINNED = {"seedloop": "0.4.1", "simloom": "0.5.0"}
ENVIRONMENT = Path(".squall") / "benchmarks-venv"


def squall_trips(trips: int) -> None:
    """Send, latency, fault decision, trace events, delivery; one message at a time."""
    from squall.real.rpc.message import Message
    from squall.real.rpc.message_type import MessageType
    from squall.sim.world.network import Network
    from squall.sim.world.scheduler import SimRuntime
    from squall.sim.world.trace import Trace

    runtime = SimRuntime()
    network = Network(runtime, latency="uniform:0.001:0.020", tracer=Trace().tracer(runtime))
    # A rule that lets everything pass: where there are faults, each message is looked at.
    network.add_rule(lambda message: None)
    store = network.store("group")
    left = trips

    def served(request: Message) -> None:
        reply = Message(MessageType.PYTHON_RET, PAYLOAD, id=request.id, src=1, dst=0)
        network.send(store, reply)

    def replied(reply: Message) -> None:
        nonlocal left
        left -= 1
        if left > 0:
            ask()

    def ask() -> None:
        network.send(store, Message(MessageType.PYTHON_CALL, PAYLOAD, id=left, src=0, dst=1))

    network.attach(store, 0, replied, lambda *_: None)
    network.attach(store, 1, served, lambda *_: None)
    if trips:
        ask()
    runtime.run()
    assert left == 0


def seedloop_trips(trips: int) -> None:
    """Two endpoints; latency from its seed, between 1 and 20 ms."""
    import asyncio

    import seedloop

    async def scenario(world: seedloop.World) -> None:
        one, other = world.net.bind(0), world.net.bind(1)

        async def serve() -> None:
            for _ in range(trips):
                src, message = await other.recv()
                await other.send(src, message)

        serving = asyncio.ensure_future(serve())
        for _ in range(trips):
            await one.send(1, PAYLOAD)
            await one.recv()
        await serving

    seedloop.replay(scenario, seed=0)


def simloom_trips(trips: int) -> None:
    """A stream between two hosts; latency from its tape."""
    import asyncio

    import simloom

    async def main(world: simloom.World) -> None:
        world.net.set_latency(0.001, 0.020)
        done = asyncio.get_running_loop().create_future()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(trips):
                writer.write(await reader.readexactly(len(PAYLOAD)))
            writer.close()

        async def serve() -> None:
            server = await asyncio.start_server(handle, host="server", port=80)
            await done
            server.close()

        world.host("server").spawn(serve())
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("server", 80)
        for _ in range(trips):
            writer.write(PAYLOAD)
            await reader.readexactly(len(PAYLOAD))
        writer.close()
        done.set_result(None)

    simloom.run(main, seed=0)


SIMULATORS: dict[str, Callable[[int], None]] = {
    "squall": squall_trips,
    "seedloop": seedloop_trips,
    "simloom": simloom_trips,
}


def microseconds_per_message(name: str) -> float:
    """The median of several runs, of which the start of the world is taken off. Of one core."""
    trips = SIMULATORS[name]

    def seconds(count: int) -> float:
        started = time.process_time()
        trips(count)
        return time.process_time() - started

    seconds(TRIPS)
    costs = [seconds(TRIPS) - seconds(0) for _ in range(ROUNDS)]
    return statistics.median(costs) / (2 * TRIPS) * 1e6


def measure() -> dict[str, float]:
    """Microseconds a message, by simulator; those that cannot be had here are left out."""
    found = {"squall": microseconds_per_message("squall")}
    python = _interpreter()
    if python is None:
        return found
    for name in PINNED:
        done = subprocess.run(
            [str(python), __file__, name], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            found[name] = json.loads(done.stdout)
    return found


def _interpreter() -> Path | None:
    """One that has the others, made if need be; None without a Python that they work with."""
    python = ENVIRONMENT / "bin" / "python"
    if python.exists():
        return python
    candidates = [sys.executable] if sys.version_info >= (3, 12) else []
    candidates += filter(None, map(shutil.which, ("python3.13", "python3.12")))
    pyenv = Path.home() / ".pyenv" / "versions"
    candidates += [str(path) for path in sorted(pyenv.glob("3.1[23].*/bin/python"))]
    for candidate in candidates:
        made = subprocess.run(
            [candidate, "-m", "venv", str(ENVIRONMENT)], capture_output=True, check=False
        )
        if made.returncode == 0:
            break
    else:
        return None
    wanted = [f"{name}=={version}" for name, version in PINNED.items()]
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "-qq", "--no-deps", *wanted],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        shutil.rmtree(ENVIRONMENT)
        return None
    return python


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(microseconds_per_message(sys.argv[1])))
    else:
        for simulator, cost in measure().items():
            print(f"{simulator:10} {cost:7.1f} us a message")
