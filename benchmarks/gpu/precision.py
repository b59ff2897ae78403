"""How far single operators and their gradients are, on a device, from ``torch.autograd``: in ulps,
by operator and dtype.

The port runs forward and backward on the device. Beside it stand torch's engine on the CPU and, on
CUDA, torch's engine on the same device: that one tells what is the port's from what is the kernels'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from squall.real.autograd import api as dist_autograd
from squall.sim.cluster import Cluster

DTYPES = (
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.complex128,
    torch.complex64,
)
_SIDE = 8
_REAL_ONLY = frozenset({"relu", "softmax", "logsumexp", "maximum"})
OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "matmul": lambda x, y: x @ y,
    "sum": lambda x, y: (x * y).sum(),
    "mean": lambda x, y: (x * y).mean(),
    "exp": lambda x, y: x.exp() * y,
    "tanh": lambda x, y: x.tanh() * y,
    "sin": lambda x, y: x.sin() + y.cos(),
    "relu": lambda x, y: (x - y).relu(),
    "maximum": lambda x, y: torch.maximum(x, y),
    "softmax": lambda x, y: x.softmax(-1) * y,
    "logsumexp": lambda x, y: (x * y).logsumexp(-1),
}


def ulps(got: Tensor, expected: Tensor) -> float:
    """The largest distance of two tensors' elements, in units in the last place of the expected one."""
    got, expected = got.detach().cpu(), expected.detach().cpu()
    if got.is_complex():
        got, expected = torch.view_as_real(got), torch.view_as_real(expected)
    about = torch.finfo(expected.dtype)
    got, expected = got.double(), expected.double()
    _, exponent = expected.abs().clamp(min=about.tiny).frexp()
    unit = torch.ldexp(torch.full_like(expected, about.eps), exponent - 1)
    return float(((got - expected).abs() / unit).max())


def inputs(dtype: torch.dtype) -> list[Tensor]:
    """Numbers from 0.5 to 1.5, as those of programs in mode float."""
    made = torch.Generator().manual_seed(0)
    return [
        (torch.rand(_SIDE, _SIDE, generator=made, dtype=torch.float64) + 0.5).to(dtype)
        for _ in range(2)
    ]


def by_torch(run: Callable[..., Tensor], given: Sequence[Tensor], device: str) -> list[Tensor]:
    """Value and gradients of an operator by torch's engine."""
    leaves = [x.to(device).requires_grad_() for x in given]
    value = run(*leaves)
    return [value, *torch.autograd.grad(value, leaves, torch.ones_like(value))]


def by_port(run: Callable[..., Tensor], given: Sequence[Tensor], name: Any) -> list[Tensor]:
    """Value and gradients of an operator by the port, in a cluster of one worker."""

    def main(rank: int) -> list[Tensor]:
        here = torch.empty(0).device
        leaves = [x.to(here).requires_grad_() for x in given]
        with dist_autograd.context() as context_id:
            value = run(*leaves)
            root = torch.view_as_real(value) if value.is_complex() else value
            weights = torch.view_as_real(torch.ones_like(value)) if value.is_complex() else None
            root = root.sum() if weights is None else (root * weights).sum()
            dist_autograd.backward(context_id, [root])
            grads = dist_autograd.get_gradients(context_id)
            return [x.detach().cpu() for x in (value, *(grads[leaf] for leaf in leaves))]

    with Cluster(1, device=name, trace=False) as cluster:
        found: list[Tensor] = cluster.run(main)[0]
    return found


def distances(device: str, name: Any) -> dict[str, dict[str, dict[str, float]]]:
    """By dtype and operator: the largest distance of value and gradients from torch's engine on the
    CPU and, on CUDA, from it on the device."""
    beside = {"cpu": "cpu", "device": device} if device == "cuda" else {"cpu": "cpu"}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for dtype in DTYPES:
        rows = found[str(dtype).removeprefix("torch.")] = {}
        for operator, run in OPERATORS.items():
            if dtype.is_complex and operator in _REAL_ONLY:
                continue
            given = inputs(dtype)
            ours = by_port(run, given, name)
            rows[operator] = {
                where: max(map(ulps, ours, by_torch(run, given, there)))
                for where, there in beside.items()
            }
    return found
