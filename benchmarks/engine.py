"""The engine against torch's own: backward over graphs of small CPU tensors, side by side.

``python benchmarks/engine.py`` prints a table; :func:`measure` gives the numbers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from squall.real.autograd import api
from squall.real.rpc.transport import QueueWorld
from squall.real.worker import Worker
from squall.sim.world.scheduler import SimRuntime
from squall.sim.world.trace import Trace

CHAIN_NODES = 2_000
DAG_NODES = 2_000
DAG_WIDTH = 64
REPEATS = 15


def chain(nodes: int = CHAIN_NODES) -> Tensor:
    """A loss at the end of a chain of ``nodes`` multiplications by a constant."""
    value = torch.ones(4, requires_grad=True)
    for _ in range(nodes):
        value = value * 1.0001
    return value.sum()


def wide_dag(nodes: int = DAG_NODES, width: int = DAG_WIDTH, seed: int = 0) -> Tensor:
    """A loss over a random graph: each node takes two of the last ``width`` values."""
    generator = torch.Generator().manual_seed(seed)
    values = [torch.randn(4, generator=generator, requires_grad=True) for _ in range(width)]
    picks = torch.randint(width, (nodes, 2), generator=generator).tolist()
    for i, (first, second) in enumerate(picks):
        a, b = values[-1 - first], values[-1 - second]
        values.append((a + b) if i % 2 else (a * b).tanh() if i % 5 == 0 else a * b * 0.1)
    return torch.stack(values[-width:]).sum()


def measure(repeats: int = REPEATS) -> dict[str, Any]:
    """Medians in seconds and ratios port/torch, for both graphs, traced and not."""
    results: dict[str, Any] = {}
    for name, build in (("chain", chain), ("wide_dag", wide_dag)):
        ratios, plain, ours, traced = [], [], [], []
        for _ in range(repeats):
            plain.append(_time(lambda loss: loss.backward(), build()))
            ours.append(_timed_port(build(), trace=False))
            traced.append(_timed_port(build(), trace=True))
            ratios.append(ours[-1] / plain[-1])
        torch_s, port_s, traced_s = map(statistics.median, (plain, ours, traced))
        results[name] = {
            "torch_s": torch_s,
            "port_s": port_s,
            "port_traced_s": traced_s,
            "ratio": statistics.median(ratios),
            "ratio_traced": traced_s / torch_s,
        }
    return results


def _time(run: Callable[[Tensor], object], loss: Tensor) -> float:
    started = time.perf_counter()
    run(loss)
    return time.perf_counter() - started


def _timed_port(loss: Tensor, *, trace: bool) -> float:
    """Seconds of one distributed backward on a worker of its own, in a new simulation."""
    runtime = SimRuntime(seed=0)
    worker = Worker(runtime, QueueWorld(runtime))
    if trace:
        worker.tracer = Trace().tracer(runtime, worker)
    worker.id = 0
    seconds: list[float] = []

    def main() -> None:
        api._init(0)
        with api.context() as context_id:
            seconds.append(_time(lambda root: api.backward(context_id, [root]), loss))

    runtime.spawn(main, name="main", worker=worker, daemon=False)
    runtime.run()
    return seconds[0]


def main() -> None:
    torch.set_num_threads(1)
    measure(repeats=2)  # warm up
    print(f"{'graph':10} {'torch ms':>9} {'port ms':>9} {'ratio':>6} {'traced':>7}")
    for name, row in measure().items():
        print(
            f"{name:10} {row['torch_s'] * 1e3:9.2f} {row['port_s'] * 1e3:9.2f} "
            f"{row['ratio']:6.2f} {row['ratio_traced']:7.2f}"
        )


if __name__ == "__main__":
    main()
