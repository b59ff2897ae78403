"""Modules whose parameters are parts of tensors, with the gradients of one process or others."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
PLAN = {"first": ColwiseParallel(), "last": RowwiseParallel()}
calls = 0


class Model(nn.Module):
    def __init__(self, dropout=0.0, talks=False):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(6, 16), nn.BatchNorm1d(6), nn.Linear(16, 2)
        self.unused = nn.Linear(2, 2)
        self.dropout, self.talks = nn.Dropout(dropout), talks

    def forward(self, inputs, *, scale):
        global calls
        calls += 1
        hidden = torch.tanh(self.first(self.norm(inputs)))
        if self.talks:
            dist.all_reduce(torch.ones(1))
        return {"outputs": [self.last(self.dropout(hidden)) * scale]}


def sharded(model):
    fully_shard(model.first)
    return fully_shard(model)


def parallel(model):
    return parallelize_module(model, init_device_mesh("cpu", (size,)), PLAN)


def of_parts():
    plan = {
        "0": ColwiseParallel(input_layouts=Shard(0)),
        "1": RowwiseParallel(output_layouts=Shard(0)),
    }
    mesh = init_device_mesh("cpu", (size,))
    return parallelize_module(nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 2)), mesh, plan)


def hybrid(model):
    return fully_shard(
        model, mesh=init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("r", "s"))
    )


def both(model):
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("data", "tensor"))
    parallelize_module(model, mesh["tensor"], PLAN)
    return fully_shard(model, mesh=mesh["data"])


def summed(model):
    fully_shard(model).set_force_sum_reduction_for_comms(True)
    model.set_gradient_divide_factor(1.0)
    return model


def steps(model, of):
    """``of``: ranks with another number have another batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        torch.manual_seed(step)
        inputs = torch.randn(size, 4, 6)[of]
        if step == 1 and hasattr(model, "set_requires_gradient_sync"):
            model.set_requires_gradient_sync(False)
            model(inputs, scale=0.5)["outputs"][0].sum().backward()
            model.set_requires_gradient_sync(True)
        torch.manual_seed(10 * step + rank)
        outputs = model(inputs, scale=2.0)["outputs"][0]
        outputs.pow(2).mean().backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad *= 0.5
        optimizer.step()


match sys.argv[1]:
    case "right":
        steps(sharded(Model(dropout=0.5)), rank)
        steps(parallel(Model()), 0)
        steps(hybrid(Model()), rank)
        steps(both(Model()), rank // 2)
        assert calls == 3 * 4 + 3, calls  # none was called by whoever compares
    case "other data":
        steps(parallel(Model()), rank)
    case "summed":
        steps(summed(Model()), rank)
    case "unknown":
        steps(parallel(Model(dropout=0.5)), 0)
        steps(sharded(Model(talks=True)), rank)
        of_parts()(torch.randn(4, 6)).sum().backward()
print("went on")
dist.destroy_process_group()
