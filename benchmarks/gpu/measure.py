"""Backward passes of the port on a device, beside ``torch.autograd.backward`` on the same one."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu.resnet import first_half, second_half
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.streams import streams_of
from squall.sim.cluster import Cluster

_NODES = 2_000
_HALF: list[Any] = []


def _timed(device: str, work: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each repetition, until the device has done all that it was given."""
    synchronize = streams_of(device).synchronize
    found = []
    for _ in range(repeats):
        synchronize()
        began = time.perf_counter()
        work()
        synchronize()
        found.append(time.perf_counter() - began)
    return found


def chain(device: str, name: str, repeats: int) -> dict[str, float]:
    """A chain of 2,000 nodes on one worker: seconds of a backward pass."""

    def built() -> tuple[Tensor, Tensor]:
        leaf = torch.ones((), device=device, requires_grad=True)
        value = leaf
        for _ in range(_NODES):
            value = value * 1.0
        return leaf, value

    def port(rank: int) -> list[float]:
        found = []
        for _ in range(repeats + 1):
            with dist_autograd.context() as context_id:
                leaf, value = built()
                found += _timed(
                    device, lambda v=value, c=context_id: dist_autograd.backward(c, [v]), 1
                )
                assert dist_autograd.get_gradients(context_id)[leaf].item() == 1.0
        return found[1:]

    with Cluster(1, device=name, trace=False) as cluster:
        ours = cluster.run(port)[0]
    row = {"nodes": float(_NODES), "port_s": median(ours)}
    if name == "cuda":  # torch's engine runs nodes of the stand-in on a thread where it is unknown
        values = [built()[1] for _ in range(repeats)]
        row["torch_s"] = median(_timed(device, value.backward, 1)[0] for value in values)
    return row


def _here() -> torch.device:
    """Where the tensors of the worker that runs are."""
    return torch.empty(0).device


def _keep_half(dtype: torch.dtype) -> None:
    _HALF[:] = [second_half(device=_here(), dtype=dtype)]


def _scores(features: Tensor) -> Tensor:
    scores: Tensor = _HALF[0](features)
    return scores


def split_step(
    device: str, name: str, dtype: torch.dtype, *, batch: int, side: int, repeats: int
) -> dict[str, float]:
    """A training step of ResNet-50 whose second half is on another worker: seconds of its forward
    and backward, and what share of them the device waits for the port."""

    def main(rank: int) -> list[float]:
        if rank:
            return []
        half: nn.Module = first_half(device=_here(), dtype=dtype)
        rpc.rpc_sync("worker1", _keep_half, args=(dtype,))
        images = torch.randn(batch, 3, side, side, device=_here()).to(dtype)

        def step() -> None:
            with dist_autograd.context() as context_id:
                scores = rpc.rpc_sync("worker1", _scores, args=(half(images),))
                dist_autograd.backward(context_id, [scores.float().sum()])

        return _timed(device, step, repeats + 1)[1:]

    with Cluster(2, device=name, trace=False) as cluster:
        ours = median(cluster.run(main)[0])
    row = {"batch": float(batch), "port_s": ours}
    if name == "cuda":
        one, two = (make(device=device, dtype=dtype) for make in (first_half, second_half))
        images = torch.randn(batch, 3, side, side, device=device).to(dtype)
        plain = median(
            _timed(device, lambda: two(one(images)).float().sum().backward(), repeats + 1)[1:]
        )
        row |= {"torch_s": plain, "waits": max(0.0, 1 - plain / ours)}
    return row
