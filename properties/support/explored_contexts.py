"""Small programs with autograd contexts, to explore: what workers do, and what each may come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster
from squall.sim.explore.state import shown, tables

#: the parameter of a worker, in its own table
_PARAMETER = "a parameter"


def nothing_left(_: dict[int, Any], cluster: Cluster) -> list[str]:
    """Whether the tables of all workers are empty."""
    return ["something is left"] if any(map(any, tables(cluster.workers))) else []


def _outcome(function: Callable[[], Any]) -> str:
    """What a function has returned or raised, in words without numbers of contexts."""
    try:
        return shown(function())
    except (RuntimeError, KeyError) as error:
        return shown(error)


# -- a context that another worker releases -------------------------------------------------------


def released_elsewhere() -> str:
    """Worker 1 releases the context while worker 0 makes a pass in it."""
    x = torch.ones(1, requires_grad=True)
    with dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", _scaled, args=(x, 2.0))
        rpc.rpc_async("worker1", dist_autograd._release_context, args=(context_id,))
        ended = _outcome(lambda: dist_autograd.backward(context_id, [y.sum()]))
        got = _outcome(lambda: float(dist_autograd.get_gradients(context_id)[x]))
    return f"{ended}; {got}"


# -- passes that fail -----------------------------------------------------------------------------


class _Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise ValueError("it fails")


def fails_on_the_last(workers: int) -> Callable[[], str]:
    """A pass along a chain of two or three workers, which fails on the last of them."""

    def main() -> str:
        x = torch.ones(1, requires_grad=True)
        with dist_autograd.context() as context_id:
            if workers == 2:
                y = rpc.rpc_sync("worker1", _failing, args=(x,))
            else:
                y = rpc.rpc_sync("worker1", _failing_behind, args=(x,))
            ended = _outcome(lambda: dist_autograd.backward(context_id, [y.sum()]))
            return f"{ended}; {len(dist_autograd.get_gradients(context_id))} gradients"

    return main


def fails_on_one_of_two() -> str:
    """A pass that goes to two workers at once, and fails on one of them."""
    x = torch.ones(1, requires_grad=True)
    with dist_autograd.context() as context_id:
        ways = [
            rpc.rpc_async("worker1", _failing, args=(x,)),
            rpc.rpc_async("worker2", _scaled, args=(x, 3.0)),
        ]
        total = ways[0].wait() + ways[1].wait()
        return _outcome(lambda: dist_autograd.backward(context_id, [total.sum()]))


def _failing(x: Tensor) -> Tensor:
    return _Fails.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def _failing_behind(x: Tensor) -> Tensor:
    return rpc.rpc_sync("worker2", _failing, args=(x,))  # type: ignore[no-any-return]


# -- several passes, several contexts -------------------------------------------------------------


def two_passes() -> float:
    """Two passes in one context, one after the other: gradients add up."""
    x = torch.ones(1, requires_grad=True)
    with dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", _scaled, args=(x, 2.0))
        dist_autograd.backward(context_id, [y.sum()], retain_graph=True)
        dist_autograd.backward(context_id, [y.sum()])
        return float(dist_autograd.get_gradients(context_id)[x])


def trainer(parameters_on: str, by: float) -> Callable[[], list[float]]:
    """A step of its own context over the parameter of another worker: the gradient it has there."""

    def main() -> list[float]:
        with dist_autograd.context() as context_id:
            y = rpc.rpc_sync(parameters_on, _with_the_parameter, args=(by,))
            dist_autograd.backward(context_id, [y.sum()])
            return rpc.rpc_sync(parameters_on, _gradients, args=(context_id,))  # type: ignore[no-any-return]

    return main


def _scaled(x: Tensor, by: float) -> Tensor:
    return x * by


def _with_the_parameter(by: float) -> Tensor:
    parameter: Tensor = current_worker().locals.setdefault(
        _PARAMETER, torch.ones(1, requires_grad=True)
    )
    return parameter * by


def _gradients(context_id: int) -> list[float]:
    return [float(grad) for grad in dist_autograd.get_gradients(context_id).values()]
