"""A training step's cost: simulated in one process against stock PyTorch in two.

One iteration is an ``rpc_sync`` with a gradient, and ``backward`` through it. Stock PyTorch runs
it between two real processes over TensorPipe on this machine; squall runs both workers here,
with zero latency.
"""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Generator
from multiprocessing.connection import Connection

import torch
import torch.multiprocessing as mp

ITERATIONS = 200


def _stock_worker(rank: int, port: int, iterations: int, result: Connection) -> None:
    import torch.distributed.autograd as dist_autograd
    from torch.distributed import rpc

    warnings.simplefilter("ignore")  # warnings of torch about its own code
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        a, b = torch.ones(3, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)

        def step() -> None:
            with dist_autograd.context() as context_id:
                loss = rpc.rpc_sync("worker1", torch.add, args=(a, b)).sum()
                dist_autograd.backward(context_id, [loss])

        for _ in range(20):
            step()
        started = time.perf_counter()
        for _ in range(iterations):
            step()
        result.send((time.perf_counter() - started) / iterations)
    rpc.shutdown()


def stock(iterations: int = ITERATIONS) -> float:
    """Seconds an iteration between two real processes."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    context = mp.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    processes = [
        context.Process(target=_stock_worker, args=(rank, port, iterations, send))
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    seconds: float = receive.recv()
    for process in processes:
        process.join()
    return seconds


def simulated(iterations: int = ITERATIONS, *, trace: bool = True) -> dict[str, float]:
    """The same iterations on two simulated workers, zero latency."""
    from squall.real.autograd import api as dist_autograd
    from squall.real.rpc import api as rpc
    from squall.sim.cluster import Cluster

    torch.set_num_threads(1)
    seconds = 0.0
    with Cluster(2, trace=trace) as cluster:

        def main(rank: int) -> None:
            nonlocal seconds
            if rank != 0:
                return
            a, b = torch.ones(3, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)

            def step() -> None:
                with dist_autograd.context() as context_id:
                    loss = rpc.rpc_sync("worker1", torch.add, args=(a, b)).sum()
                    dist_autograd.backward(context_id, [loss])

            for _ in range(20):
                step()
            events = next(cluster.runtime.env._eid)
            started = time.perf_counter()
            for _ in range(iterations):
                step()
            seconds = time.perf_counter() - started
            counted["simpy_events"] = next(cluster.runtime.env._eid) - events

        counted: dict[str, float] = {}
        cluster.run(main)
        messages = sum(cluster.trace.message_counts().values())
    return {
        "seconds_per_iteration": seconds / iterations,
        "simpy_events_per_s": counted["simpy_events"] / seconds,
        "messages_per_iteration": messages / (iterations + 20),
    }


def bare_simpy(events: int = 200_000) -> float:
    """Events a second that SimPy itself manages: one process that sleeps."""
    import simpy

    environment = simpy.Environment()

    def sleeper() -> Generator[simpy.Event, object, None]:
        for _ in range(events):
            yield environment.timeout(1)

    environment.process(sleeper())
    started = time.perf_counter()
    environment.run()
    return events / (time.perf_counter() - started)


def measure(rounds: int = 3) -> dict[str, float]:
    """Medians over ``rounds`` alternations of the two."""
    stock_s, sim_s, rates, bare, messages = [], [], [], [], 0.0
    for _ in range(rounds):
        stock_s.append(stock())
        run = simulated()
        sim_s.append(run["seconds_per_iteration"])
        rates.append(run["simpy_events_per_s"])
        messages = run["messages_per_iteration"]
        bare.append(bare_simpy())
    middle = rounds // 2
    ratios = sorted(s / t for s, t in zip(sim_s, stock_s, strict=True))
    return {
        "stock_ms": sorted(stock_s)[middle] * 1e3,
        "squall_ms": sorted(sim_s)[middle] * 1e3,
        "ratio": ratios[middle],
        "messages_per_iteration": messages,
        "simpy_events_per_s": sorted(rates)[middle],
        "bare_simpy_events_per_s": sorted(bare)[middle],
        "simpy_fraction": sorted(rates)[middle] / sorted(bare)[middle],
    }


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:28} {value:12.3f}")
