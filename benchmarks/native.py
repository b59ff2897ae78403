"""What PyTorch's compiled engine costs under the simulated network.

A message of it (command, handler, quiescence, trace) against a blocking ``rpc_sync`` of the same
wheel over TensorPipe, two messages; and whole random scenarios a second, forks and all.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from squall.model.program.program import Input, Leaf, Op, Program, Step, Trainer
from squall.sim.scenarios.settings import campaign_settings
from squall.sim.search.draw import Settings
from squall.sim.search.judge import judge
from squall.sim.stock.program import run_native
from squall.sim.stock.shared import PROGRAMS as MODULES
from squall.sim.stock.shared import close_fork_servers, shared_fork_server

CALLS = 300

_STOCK = """
import sys, time, torch, torch.distributed.rpc as rpc
rank = int(sys.argv[1])
torch.set_num_threads(1)
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
if rank == 0:
    x = torch.ones(())
    times = []
    for _ in range(int(sys.argv[2])):
        began = time.perf_counter()
        rpc.rpc_sync("worker1", torch.mul, args=(x, 2))
        times.append(time.perf_counter() - began)
    print(sorted(times)[len(times) // 2] * 1e6)
rpc.shutdown()
"""


def _program(calls: int) -> Program:
    op = Op(kind="scale", inputs=(Input(1),), worker=1, call="sync", builtin=True)
    step = Step(ops=(op,) * calls)
    leaf = Leaf(owner=0, requires_grad=False)
    return Program(workers=2, leaves=(leaf,), trainers=(Trainer(worker=0, steps=(step,)),))


def microseconds_per_message() -> float:
    """Of ``CALLS`` blocking calls, less what the run costs without them."""
    took = {}
    for calls in (1, CALLS + 1):
        program = _program(calls)
        began = time.perf_counter()
        run = run_native(program, shared_fork_server(MODULES), latency="constant:0.001")
        took[calls] = time.perf_counter() - began
        assert run.crash is None and not run.waits
    return (took[CALLS + 1] - took[1]) / (2 * CALLS) * 1e6


def microseconds_over_tensorpipe() -> float:
    """The median of as many blocking calls between two real processes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-W", "ignore", "-c", _STOCK]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(CALLS)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path.home(),
        )
        for rank in range(2)
    ]
    said, _ = ranks[0].communicate(timeout=120)
    ranks[1].communicate(timeout=120)
    return float(said)


def scenarios_per_second(count: int = 30) -> float:
    shared_fork_server(MODULES)
    began = time.perf_counter()
    for seed in range(count):
        judge(seed, Settings(engine="torch"))
    return count / (time.perf_counter() - began)


def measure(rounds: int = 3) -> dict[str, float]:
    """Medians, the two kinds of calls in turn."""
    with campaign_settings():
        try:
            microseconds_per_message()
            ours, stock = [], []
            for _ in range(rounds):
                stock.append(microseconds_over_tensorpipe())
                ours.append(microseconds_per_message())
            message = sorted(ours)[rounds // 2]
            call = sorted(stock)[rounds // 2]
            return {
                "message_us": message,
                "tensorpipe_call_us": call,
                "ratio": message / call,
                "scenarios_per_s": scenarios_per_second(),
            }
        finally:
            close_fork_servers()


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:24} {value:10.2f}")
