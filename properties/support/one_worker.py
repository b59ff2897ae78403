"""A worker of its own for whoever wants to run a backward pass without a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from squall.real.autograd import api as dist_autograd
from squall.real.rpc.transport import QueueWorld
from squall.real.tracing import NULL_TRACER, Tracer
from squall.real.worker import Worker
from squall.sim.world.isolation import TorchIsolation
from squall.sim.world.scheduler import SimRuntime

T = TypeVar("T")


def on_one_worker(main: Callable[[], T], tracer: Tracer = NULL_TRACER) -> T:
    """What ``main()`` returns, run as the only task of a new worker."""
    runtime = SimRuntime(seed=0, isolation=TorchIsolation())
    worker = Worker(runtime, QueueWorld(runtime), tracer=tracer)
    worker.id = 0
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            dist_autograd._init(0)
            results.append(main())
        except Exception as error:
            errors.append(error)

    runtime.spawn(run, name="main", worker=worker, daemon=False)
    runtime.run()
    if errors:
        raise errors[0]
    return results[0]


def dist_backward(*roots: Tensor, retain_graph: bool = False) -> dict[Tensor, Tensor]:
    """The gradients of a distributed pass from ``roots`` on one worker."""

    def main() -> dict[Tensor, Tensor]:
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, list(roots), retain_graph)
            return dist_autograd.get_gradients(context_id)

    return on_one_worker(main)


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=dtype).requires_grad_()
