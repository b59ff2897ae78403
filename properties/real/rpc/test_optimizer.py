"""DistributedOptimizer: the numbers of the optimizers it runs on the owners of parameters."""

from __future__ import annotations

import pytest
import torch

from squall.properties.support.commands import python
from squall.real.autograd import api as dist_autograd
from squall.real.rpc import api as rpc
from squall.real.rpc.optimizer import DistributedOptimizer
from squall.real.runtime import current_task
from squall.real.worker import current_worker
from squall.sim.cluster import Cluster

STEPS = 4


class Linear:
    """A weight that lives on one worker, kept where the test can look at it."""

    made: list[torch.Tensor] = []  # noqa: RUF012 - one test, one list

    def __init__(self, seed):
        generator = torch.Generator().manual_seed(seed)
        self.weight = torch.randn(3, 3, generator=generator, requires_grad=True)
        self.made.append(self.weight)

    def forward(self, x):
        return x @ self.weight

    def parameter(self):
        return rpc.RRef(self.weight)

    def read(self):
        return self.weight.detach()


@pytest.fixture(autouse=True)
def _forget():
    Linear.made.clear()


def inputs():
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(2, 3, generator=generator) for _ in range(STEPS)]


def train(cls, **kwargs):
    """Two layers on two workers; the weights after a few steps."""
    layers = [rpc.remote("worker1", Linear, args=(1,)), rpc.remote("worker2", Linear, args=(2,))]
    optimizer = DistributedOptimizer(
        cls, [layer.rpc_sync().parameter() for layer in layers], **kwargs
    )
    for x in inputs():
        with dist_autograd.context() as context_id:
            for layer in layers:
                x = layer.rpc_sync().forward(x)
            dist_autograd.backward(context_id, [x.pow(2).sum()])
            optimizer.step(context_id)
    return [layer.rpc_sync().read() for layer in layers]


def train_alone(cls, **kwargs):
    layers = [Linear(1), Linear(2)]
    optimizer = cls([layer.weight for layer in layers], **kwargs)
    for x in inputs():
        optimizer.zero_grad()
        for layer in layers:
            x = layer.forward(x)
        x.pow(2).sum().backward()
        optimizer.step()
    return [layer.read() for layer in layers]


@pytest.mark.parametrize(
    ("cls", "kwargs"),
    [
        (torch.optim.SGD, {"lr": 0.01}),
        (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
        (torch.optim.Adam, {"lr": 0.01}),
        (torch.optim.Adam, {"lr": 0.01, "amsgrad": True, "betas": (0.8, 0.99)}),
        (torch.optim.AdamW, {"lr": 0.01}),
        (torch.optim.Adagrad, {"lr": 0.1}),
        (torch.optim.Adadelta, {"lr": 0.1}),
        (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True}),
        (torch.optim.Rprop, {"lr": 0.01}),
        (torch.optim.Adamax, {"lr": 0.01}),
        (torch.optim.NAdam, {"lr": 0.01}),  # no functional twin
    ],
)
def test_the_numbers_are_those_of_the_optimizer_in_one_process(cls, kwargs):
    def main(rank):
        return train(cls, **kwargs) if rank == 0 else None

    with Cluster(3) as cluster:
        distributed = cluster.run(main)[0]
    for ours, alone in zip(distributed, train_alone(cls, **kwargs), strict=True):
        assert torch.equal(ours, alone)


@pytest.mark.parametrize(("cls", "touched"), [(torch.optim.SGD, False), (torch.optim.ASGD, True)])
def test_only_what_the_context_has_is_stepped_and_only_twins_leave_grad_alone(cls, touched):
    def main(rank):
        if rank != 0:
            return None
        used, idle = (rpc.remote("worker1", Linear, args=(seed,)) for seed in (1, 2))
        optimizer = DistributedOptimizer(
            cls, [used.rpc_sync().parameter(), idle.rpc_sync().parameter()], lr=0.1
        )
        for layers in ([used, idle], [used]):
            with dist_autograd.context() as context_id:
                x = sum(layer.rpc_sync().forward(torch.ones(1, 3)) for layer in layers)
                dist_autograd.backward(context_id, [x.sum()])
                before = [used.rpc_sync().read(), idle.rpc_sync().read()]
                optimizer.step(context_id)
        after = [used.rpc_sync().read(), idle.rpc_sync().read()]
        return [torch.equal(b, a) for b, a in zip(before, after, strict=True)]

    with Cluster(2) as cluster:
        assert cluster.run(main)[0] == [False, True]
    assert [weight.grad is not None for weight in Linear.made] == [touched, touched]


def test_what_a_worker_raises_is_raised_by_the_call(capsys):
    def main(rank):
        if rank != 0:
            return
        layer = rpc.remote("worker1", Linear, args=(1,))
        with pytest.raises(ValueError, match="Invalid learning rate"):
            DistributedOptimizer(torch.optim.NAdam, [layer.rpc_sync().parameter()], lr=-1.0)
        optimizer = DistributedOptimizer(torch.optim.SGD, [layer.rpc_sync().parameter()], lr=0.1)
        with pytest.raises(RuntimeError, match="Could not find autograd context with id: 77"):
            optimizer.step(77)

    with Cluster(2) as cluster:
        cluster.run(main)


class Slow(torch.optim.SGD):
    """Takes a second a step, and sees whether it is alone."""

    running = 0
    most = 0

    def step(self, closure=None):
        Slow.running += 1
        Slow.most = max(Slow.most, Slow.running)
        current_task().runtime.sleep(1.0)
        Slow.running -= 1


def test_steps_on_one_worker_are_taken_one_at_a_time():
    Slow.most = 0

    def main(rank):
        if rank == 0:
            return 0.0
        layer = rpc.remote("worker0", Linear, args=(rank,))
        optimizer = DistributedOptimizer(Slow, [layer.rpc_sync().parameter()], lr=0.1)
        with dist_autograd.context() as context_id:
            y = layer.rpc_sync().forward(torch.ones(1, 3))
            dist_autograd.backward(context_id, [y.sum()])
            optimizer.step(context_id)
        return current_worker().runtime.now()

    with Cluster(4) as cluster:
        ends = cluster.run(main)
    assert Slow.most == 1
    assert sorted(ends)[1:] == pytest.approx([1.0, 2.0, 3.0], abs=0.1)


_COMPILED = """
from typing import Optional
import torch
from torch.jit._state import _get_script_class
from squall.real.rpc.functional_twins import functional_twin, register_twin

register_twin(torch.nn.Linear, object)
twin = functional_twin(torch.optim.SGD)
assert _get_script_class(twin) is None

@torch.jit.script
def step(x: torch.Tensor):
    gradients: list[Optional[torch.Tensor]] = [torch.ones_like(x)]
    twin([x], lr=1.0).step(gradients)
    return x

print(step(torch.zeros(1)).item())
"""


def test_torchscript_compiles_a_twin_only_where_something_that_is_compiled_uses_it(tmp_path):
    script = tmp_path / "compiled.py"
    script.write_text(_COMPILED, encoding="utf-8")
    assert python("-W", "ignore", str(script)).stdout == "-1.0\n"
